"""The broker's transactional ids: the coordinator of each id, and the ends of transactions.

Rules (besides those of ``PartitionCoordinators``):

- When a coordinator over ``__transaction_state`` is loaded, transactions whose end was already
  decided are completed.
- The markers are written after the decision to end a transaction
  (``kwire.broker.transaction_completion``). A marker that can't be written is tried again until it
  is written, or until its partition is gone.
- The broker looks for timeouts and expired ids at Kafka's intervals.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import trio

from kwire.broker.flusher import Flush
from kwire.broker.markers import MarkedBroker
from kwire.broker.partition import Partition
from kwire.broker.partition_coordinators import PartitionCoordinators, Periodic
from kwire.broker.producer_ids import ProducerIds
from kwire.broker.transaction_completion import LoadedTransactions, TransactionCompletion
from kwire.coordinator.effects import Effects
from kwire.coordinator.transaction.coordinator import (
    ProducerIdNeeded,
    TransactionCoordinator,
    TransactionSettings,
)
from kwire.coordinator.transaction.state import ProducerIdAndEpoch, TopicPartition, Transaction
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.features import TRANSACTION_VERSION
from kwire.metadata.image import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from kwire.broker.remote_coordinators import RemoteCoordinators

log = logging.getLogger(__name__)

FIRST_RETRY_MS = 50
LAST_RETRY_MS = 5_000
"""The first and the longest interval between tries to write a delayed marker."""


class TransactionsBroker(MarkedBroker, Protocol):
    """A broker as its transactional ids see it."""

    @property
    def producer_ids(self) -> ProducerIds:
        """The producer ids that the broker gives out."""
        ...


class Transactions(PartitionCoordinators[LoadedTransactions]):
    """All transactional ids of the broker."""

    topic_name = TRANSACTIONS_TOPIC
    unusable = "its transactional ids"

    _broker: TransactionsBroker

    def __init__(self, broker: TransactionsBroker) -> None:
        super().__init__(
            broker,
            Periodic(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms",
                self._abort_timed_out,
            ),
            Periodic(
                "transaction.remove.expired.transaction.cleanup.interval.ms", self._expire_ids
            ),
        )
        self._features: Mapping[str, int] | None = None
        self._settings = TransactionSettings()
        self._completion = TransactionCompletion(broker)
        self._is_waiting = False
        self._retry_ms = FIRST_RETRY_MS

    @cached_property
    def elsewhere(self) -> "RemoteCoordinators":
        """The coordinators of transactional ids on other brokers."""
        from kwire.broker.remote_coordinators import RemoteCoordinators

        return RemoteCoordinators(self._broker, self.lookup)

    def of_producer(self, transactional_id: str) -> LoadedTransactions:
        """The coordinator of a producer's id; KafkaError as in ``of``, or INVALID_REQUEST.

        As in Kafka, every broker refuses an empty id, whoever is its coordinator.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return self.of(transactional_id)

    def _get(self, index: int) -> LoadedTransactions:
        loaded = super()._get(index)
        loaded.coordinator.settings = self._current_settings()
        return loaded

    # For handlers and other parts of the broker

    def carry_out(self, loaded: LoadedTransactions, effects: Effects | None) -> None:
        """Write a decision, and complete the transactions whose end it decides.

        Raises KafkaError if the decision can't be written. Markers that can't be written are tried
        again later.
        """
        if effects is not None:
            loaded.runtime.carry_out(effects)
        if loaded.coordinator.unfinished:
            self._finish(loaded, tries_again=False)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_version: int,
        *,
        rests: bool = True,
    ) -> Flush | None:
        """Add partitions to a transaction; the flush that their first write has to wait for.

        ``rests`` as for ``of``. Raises the KafkaError of ``TransactionCoordinator``.
        """
        loaded = self.of(transactional_id, rests=rests)
        now_ms = self._broker.now_ms()
        effects = loaded.coordinator.add_partitions(
            transactional_id, producer, partitions, client_version, now_ms
        )
        self.carry_out(loaded, effects)
        return None if effects is None else loaded.partition.flush

    def check_added(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Transaction:
        """The transaction in which a producer says it writes; KafkaError like the coordinator's."""
        return self.of(transactional_id).coordinator.check_added(transactional_id, producer)

    def _finish(self, loaded: LoadedTransactions, *, tries_again: bool = True) -> None:
        """Complete unfinished transactions; try again later if one of them has to wait."""
        is_done = self._completion.complete_transactions(loaded, tries_again=tries_again)
        if not is_done and not self._is_waiting:
            self._changed.set()

    # Work that no request causes

    async def run(self) -> None:
        """Load every coordinator, then do the overdue work, forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._completion.run)
            await super().run()

    def look_again(self) -> None:
        """Load and drop coordinators, because this broker may lead other partitions now.

        Also try delayed markers again, because they may have waited for a leader.
        """
        super().look_again()
        self._changed.set()

    def _begin(self, loaded: LoadedTransactions) -> None:
        self._finish(loaded)

    def _wait_ms(self) -> float:
        self._is_waiting = any(home.coordinator.unfinished for home in self._loaded.values())
        return min(super()._wait_ms(), self._retry_ms if self._is_waiting else math.inf)

    async def _do_overdue(self) -> None:
        """Retry delayed ends, at longer and longer intervals."""
        longer_ms = min(2 * self._retry_ms, LAST_RETRY_MS)
        self._retry_ms = longer_ms if self._is_waiting else FIRST_RETRY_MS
        for loaded in self.loaded():
            self._finish(loaded)

    def _new(self, partition: Partition) -> LoadedTransactions:
        coordinator = TransactionCoordinator(self._current_settings())
        runtime = self._runtime(coordinator, partition)
        committed = self.lookup.committed_of(partition)
        return LoadedTransactions(coordinator, runtime, partition, committed)

    def _current_settings(self) -> TransactionSettings:
        """The settings at the level that ``transaction.version`` has now."""
        features = self._broker.image.features
        if features is not self._features:
            self._features = features
            integer = self._broker.integer
            self._settings = TransactionSettings(
                max_timeout_ms=integer("transaction.max.timeout.ms"),
                id_expiration_ms=integer("transactional.id.expiration.ms"),
                transaction_version=features.get(TRANSACTION_VERSION, 0),
            )
        return self._settings

    async def _abort_timed_out(self) -> None:
        age_ms = self._broker.clock.ages()
        for index, loaded in list(self._loaded.items()):
            for transactional_id in loaded.coordinator.timed_out(age_ms):
                log.info("transaction %r has timed out and is aborted", transactional_id)
                try:
                    await self._abort(index, transactional_id)
                except KafkaError as error:
                    log.error("cannot abort transaction %r: %s", transactional_id, error)

    async def _abort(self, index: int, transactional_id: str) -> None:
        """Abort a transaction unless it has ended meanwhile; KafkaError if the abort fails."""
        clock = self._broker.clock
        new_id: int | None = None
        while True:
            loaded = self._get(index)
            try:
                effects = loaded.coordinator.abort_timed_out(
                    transactional_id, new_id, clock.now_ms(), clock.ages()
                )
            except ProducerIdNeeded:
                new_id = await self._broker.producer_ids.next()
                continue
            return self.carry_out(loaded, effects)

    async def _expire_ids(self) -> None:
        age_ms = self._broker.clock.ages()
        for loaded in self._loaded.values():
            while (effects := loaded.coordinator.expire_ids(age_ms)).records:
                if not self._try_effects(loaded, effects):
                    break
