"""The broker's transactional ids: the coordinator of each id, and the ends of transactions.

Rules:

- The records of a transactional id are in a partition of ``__transaction_state`` (``lookup``). The
  coordinator of the id is loaded when this broker begins to lead the partition, and dropped when it
  stops leading it. While it is loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS. After that,
  transactions whose end was already decided are completed.
- A damaged or offline partition has no coordinator. Requests for its ids get NOT_COORDINATOR or
  COORDINATOR_NOT_AVAILABLE; the ids of other partitions are served as usual.
- The markers are written after the decision to end a transaction
  (``kwire.broker.transaction_completion``). A marker that can't be written is tried again until it
  is written, or until its partition is gone.
- A coordinator answers only from replicated records (``committed``), even if a request only reads.
- The broker looks for timeouts and expired ids at Kafka's intervals.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import trio

from kwire.broker.coordinator_log import CoordinatorLog
from kwire.broker.coordinator_lookup import CoordinatorLookup
from kwire.broker.flusher import Flush
from kwire.broker.markers import MarkedBroker
from kwire.broker.partition import Partition
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
from kwire.runtime import CoordinatorRuntime

if TYPE_CHECKING:
    from kwire.broker.remote_coordinators import RemoteCoordinators

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.05
LAST_RETRY_S = 5.0
"""The first and the longest interval, in seconds, between tries to write a delayed marker."""


class TransactionsBroker(MarkedBroker, Protocol):
    """A broker as its transactional ids see it."""

    @property
    def producer_ids(self) -> ProducerIds:
        """The producer ids that the broker gives out."""
        ...


class Transactions:
    """All transactional ids of the broker."""

    topic_name = TRANSACTIONS_TOPIC

    def __init__(self, broker: TransactionsBroker) -> None:
        self._broker = broker
        self.lookup = CoordinatorLookup(broker, TRANSACTIONS_TOPIC)
        self._loaded: dict[int, LoadedTransactions] = {}
        self._look_again = trio.Event()
        self._look_again.set()
        self._features: Mapping[str, int] | None = None
        self._settings = TransactionSettings()
        self._completion = TransactionCompletion(broker)
        self._changed = trio.Event()
        self._is_waiting = False
        self._abort_at_ms = self._expire_at_ms = math.inf  # by the steady clock
        self._is_closed = False

    @property
    def has_topic(self) -> bool:
        """Whether ``__transaction_state`` exists."""
        return self.lookup.topic_exists

    async def ensure_topic(self) -> None:
        """Create ``__transaction_state`` if missing; KafkaError (COORDINATOR_NOT_AVAILABLE)."""
        await self.lookup.ensure_topic()

    @cached_property
    def elsewhere(self) -> "RemoteCoordinators":
        """The coordinators of transactional ids on other brokers."""
        from kwire.broker.remote_coordinators import RemoteCoordinators

        return RemoteCoordinators(self._broker, self.lookup)

    def of(self, transactional_id: str, *, rests: bool = True) -> LoadedTransactions:
        """The coordinator of a transactional id.

        If ``rests``, the answer to the current request waits until the coordinator's records are
        replicated. Otherwise the caller waits for that itself. Raises KafkaError: NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._is_closed:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        loaded = self._get(self.lookup.partition_of(transactional_id))
        if rests and loaded.committed is not None:
            self._broker.flusher.rest_on(loaded.committed)
        return loaded

    def of_producer(self, transactional_id: str) -> LoadedTransactions:
        """The coordinator of a producer's id; KafkaError as in ``of``, or INVALID_REQUEST.

        As in Kafka, every broker refuses an empty id, whoever is its coordinator.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return self.of(transactional_id)

    def _get(self, index: int) -> LoadedTransactions:
        loaded = self._loaded.get(index)
        if loaded is not None and not self.lookup.is_here(loaded.partition):
            del self._loaded[index]
            loaded = None
        if loaded is None:
            self._loaded[index] = loaded = self._new(self.lookup.empty_partition(index))
        loaded.coordinator.settings = self._current_settings()
        return loaded

    def loaded(self) -> list[LoadedTransactions]:
        """The coordinators that are ready now."""
        return list(self._loaded.values())

    def all_coordinators(self) -> list[LoadedTransactions]:
        """Every coordinator whose partition can be used.

        Raises KafkaError (COORDINATOR_LOAD_IN_PROGRESS) while one isn't ready.
        """
        found = [self._get(index) for index in self.lookup.partitions_here()]
        for loaded in found:
            if loaded.committed is not None:
                self._broker.flusher.rest_on(loaded.committed)
        return found

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

    def close(self) -> None:
        """Refer requests to another coordinator, because the broker stops."""
        self._is_closed = True

    def _finish(self, loaded: LoadedTransactions, *, tries_again: bool = True) -> None:
        """Complete unfinished transactions; try again later if one of them has to wait."""
        is_done = self._completion.complete_transactions(loaded, tries_again=tries_again)
        if not is_done and not self._is_waiting:
            self._changed.set()

    # Work that no request causes

    def wake_if_due(self) -> None:
        """Wake the task that looks for timeouts when that is overdue, also after a sleep."""
        if self._broker.clock.steady_ms() >= min(self._abort_at_ms, self._expire_at_ms):
            self._changed.set()

    async def run(self) -> None:
        """Load every coordinator, then do the overdue work, forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._completion.run)
            nursery.start_soon(self._follow_partitions)
            await self._keep_time()

    def look_again(self) -> None:
        """Load and drop coordinators, because this broker may lead other partitions now.

        Also try delayed markers again, because they may have waited for a leader.
        """
        self._look_again.set()
        self._changed.set()

    async def _follow_partitions(self) -> None:
        """Compare the coordinators with the partitions led here, whenever these change."""
        while True:
            await self._look_again.wait()
            self._look_again = trio.Event()
            for index, loaded in list(self._loaded.items()):
                if not self.lookup.is_here(loaded.partition):
                    del self._loaded[index]
            for partition in self.lookup.partitions_to_load():
                if partition.index not in self._loaded:
                    await self._load(partition)

    async def _keep_time(self) -> None:
        """Retry delayed ends, abort transactions that time out, and forget expired ids."""
        integer = self._broker.integer
        abort_ms = integer("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        expire_ms = integer("transaction.remove.expired.transaction.cleanup.interval.ms")
        steady_ms = self._broker.clock.steady_ms
        self._abort_at_ms, self._expire_at_ms = steady_ms() + abort_ms, steady_ms() + expire_ms
        retry_s = FIRST_RETRY_S
        while True:
            self._changed = trio.Event()
            self._is_waiting = any(home.coordinator.unfinished for home in self._loaded.values())
            wait_s = max(0, min(self._abort_at_ms, self._expire_at_ms) - steady_ms()) / 1000
            with trio.move_on_after(min(wait_s, retry_s) if self._is_waiting else wait_s):
                await self._changed.wait()
            retry_s = min(2 * retry_s, LAST_RETRY_S) if self._is_waiting else FIRST_RETRY_S
            for loaded in list(self._loaded.values()):
                self._finish(loaded)
            now_ms = steady_ms()
            if now_ms >= self._abort_at_ms:
                self._abort_at_ms = now_ms + abort_ms
                await self._abort_timed_out()
            if now_ms >= self._expire_at_ms:
                self._expire_at_ms = now_ms + expire_ms
                self._expire_ids()

    async def _load(self, partition: Partition) -> None:
        batches = CoordinatorLog(partition, self.lookup.is_here)
        loaded = self._new(partition)
        try:
            await loaded.runtime.load(batches)
        except (KafkaError, OSError) as error:
            if not self.lookup.is_here(partition):
                return  # its next leader may have truncated it meanwhile
            batches.say_why_not_loaded(error, "its transactional ids")
            self.lookup.mark_damaged(partition)
            return
        if self.lookup.is_here(partition):
            self._loaded[partition.index] = loaded
            self._finish(loaded)

    def _new(self, partition: Partition) -> LoadedTransactions:
        coordinator = TransactionCoordinator(self._current_settings())
        runtime = CoordinatorRuntime(
            coordinator,
            partition.append_own,
            self._broker.now_ms,
            lambda _: None,
            flush=lambda: partition.flush,
            do_afterwards=lambda function: self._broker.do_afterwards(function),
        )
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

    def _expire_ids(self) -> None:
        age_ms = self._broker.clock.ages()
        for loaded in self._loaded.values():
            while (effects := loaded.coordinator.expire_ids(age_ms)).records:
                if not self._try_effects(loaded, effects):
                    break

    def _try_effects(self, loaded: LoadedTransactions, effects: Effects) -> bool:
        """Carry out effects that no request caused; log a failure, and try again later."""
        try:
            self.carry_out(loaded, effects)
        except KafkaError as error:
            log.error("cannot write to %s: %s", TRANSACTIONS_TOPIC, error)
            return False
        return True
