"""Bringing transactions to the end that is decided: their markers, and the record that says so.

Rules:

- The markers follow the decision in the same turn, and the completing record follows the markers.
  Those of a transaction with many partitions take several turns: others have theirs in between.
- Where one of the partitions has to be on the disk before it is acknowledged (``flush.messages``),
  each step waits until the one before is there: a power cut must not leave a marker without its
  decision, nor a completed transaction without its markers. A marker counts as written when it is
  on the disk; one that doesn't get there is written again.
- What can't be written waits; ``finish`` is called again and goes on where it was.
"""

import logging
from typing import NamedTuple

import trio

from kwire.broker.flusher import Flush
from kwire.broker.markers import EndMarker, MarkedBroker, write_marker
from kwire.broker.partition import Partition
from kwire.coordinator.transaction.coordinator import TransactionCoordinator
from kwire.coordinator.transaction.state import TopicPartition, Transaction
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import NO_LIMIT
from kwire.runtime import CoordinatorRuntime

log = logging.getLogger(__name__)

_OVERTAKEN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

MARKERS_PER_TURN = 50
"""After so many markers of one transaction others have their turn."""


class _Written(NamedTuple):
    """What was tried: the partitions that are done, each with what its marker waits for on its way
    to the disk, and why others have to be tried again."""

    flushes: dict[TopicPartition, Flush | None]
    delayed: KafkaError | None


class LoadedTransactions:
    """A coordinator that is ready, what drives it, and the partition it lives in."""

    __slots__ = ("coordinator", "partition", "runtime")

    def __init__(
        self, coordinator: TransactionCoordinator, runtime: CoordinatorRuntime, partition: Partition
    ) -> None:
        self.coordinator = coordinator
        self.runtime = runtime
        self.partition = partition


class Endings:
    """The ends of this broker's transactions; ``run`` has to run for those that wait for a disk."""

    def __init__(self, broker: MarkedBroker) -> None:
        self._broker = broker
        self._nursery: trio.Nursery | None = None
        self._under_way: set[str] = set()
        self._delayed: set[str] = set()

    async def run(self) -> None:
        """Have a place for the ends that wait for a disk, for ever."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def finish(self, loaded: LoadedTransactions, *, tries_again: bool = True) -> bool:
        """Bring every unfinished transaction to its end; whether nothing has to be tried again.

        Those that had to wait before are left alone unless it ``tries_again``: they may be many.
        """
        is_done = True
        for transactional_id in list(loaded.coordinator.unfinished):
            is_delayed = transactional_id in self._delayed
            if transactional_id in self._under_way or (is_delayed and not tries_again):
                continue
            self._delayed.discard(transactional_id)
            prepared = loaded.coordinator.transactions[transactional_id]
            if len(prepared.partitions) > MARKERS_PER_TURN or self._is_strict(loaded, prepared):
                self._finish_in_steps(loaded, transactional_id, is_news=not is_delayed)
                is_done = False  # somebody has to see whether it has come to its end
                continue
            try:
                written = self._write_markers(loaded, prepared, sorted(prepared.partitions))
                self._complete(loaded, transactional_id, written)
            except KafkaError as error:
                self._delay(transactional_id, error, is_news=not is_delayed)
                is_done = False
        return is_done

    def _delay(self, transactional_id: str, error: KafkaError, *, is_news: bool) -> None:
        self._delayed.add(transactional_id)
        level = logging.WARNING if is_news else logging.DEBUG
        log.log(level, "the end of transaction %r has to wait: %s", transactional_id, error)

    def _is_strict(self, loaded: LoadedTransactions, prepared: Transaction) -> bool:
        """Whether an acknowledgement has to wait for the disk somewhere."""
        partitions = [loaded.partition, *self._partitions(prepared)]
        return any(partition.log.config.flush_messages != NO_LIMIT for partition in partitions)

    def _partitions(self, prepared: Transaction) -> list[Partition]:
        """The partitions that are in a transaction and can be served."""
        found = []
        for topic, index in prepared.partitions:
            try:
                found.append(self._broker.partition(topic, index))
            except KafkaError:
                continue
        return found

    def _finish_in_steps(
        self, loaded: LoadedTransactions, transactional_id: str, *, is_news: bool
    ) -> None:
        if self._nursery is not None:
            self._under_way.add(transactional_id)
            self._nursery.start_soon(self._step_by_step, loaded, transactional_id, is_news)

    async def _step_by_step(
        self, loaded: LoadedTransactions, transactional_id: str, is_news: bool
    ) -> None:
        prepared = loaded.coordinator.transactions[transactional_id]
        try:
            await _on_disk(loaded.partition.flush)
            written = await self._write_many(loaded, prepared)
            self._complete(loaded, transactional_id, await _all_on_disk(written))
        except KafkaError as error:
            self._delay(transactional_id, error, is_news=is_news)
        finally:
            self._under_way.discard(transactional_id)

    async def _write_many(self, loaded: LoadedTransactions, prepared: Transaction) -> _Written:
        """Write the markers that are missing, with turns for others in between."""
        missing = sorted(prepared.partitions)
        flushes: dict[TopicPartition, Flush | None] = {}
        delayed: KafkaError | None = None
        for first in range(0, len(missing), MARKERS_PER_TURN):
            if first:
                await trio.lowlevel.checkpoint()
            turn = missing[first : first + MARKERS_PER_TURN]
            written = self._write_markers(loaded, prepared, turn)
            flushes |= written.flushes
            delayed = written.delayed or delayed
        return _Written(flushes, delayed)

    def _write_markers(
        self, loaded: LoadedTransactions, prepared: Transaction, missing: list[TopicPartition]
    ) -> _Written:
        marker = EndMarker(
            prepared.producer_id,
            prepared.producer_epoch,
            loaded.partition.leader_epoch,
            prepared.is_committing,
            prepared.client_version,
        )
        flushes: dict[TopicPartition, Flush | None] = {}
        delayed: KafkaError | None = None
        for topic, index in missing:
            try:
                flushes[topic, index] = write_marker(self._broker, marker, topic, index)
            except KafkaError as error:
                is_gone = self._broker.image.partition(topic, index) is None
                if not is_gone and error.code not in _OVERTAKEN:
                    delayed = error
                    continue
                log.warning("%s-%d needs no marker for %s: %s", topic, index, marker, error)
                flushes[topic, index] = None
        return _Written(flushes, delayed)

    def _complete(
        self, loaded: LoadedTransactions, transactional_id: str, written: _Written
    ) -> None:
        """Write that every marker is there; KafkaError if something has to be tried again."""
        loaded.coordinator.markers_written(transactional_id, written.flushes)
        if written.delayed is not None:
            raise written.delayed
        now_ms = self._broker.now_ms()
        loaded.runtime.carry_out(loaded.coordinator.complete(transactional_id, now_ms))


async def _all_on_disk(written: _Written) -> _Written:
    """Wait for the disk, where that is asked for; what isn't there then has to be tried again."""
    flushes: dict[TopicPartition, Flush | None] = {}
    delayed = written.delayed
    for partition, flush in written.flushes.items():
        try:
            await _on_disk(flush)
        except KafkaError as error:
            delayed = error
        else:
            flushes[partition] = None
    return _Written(flushes, delayed)


async def _on_disk(flush: Flush | None) -> None:
    """Wait until a write is on the disk, where that is asked for; KafkaError."""
    if flush is not None:
        await flush.wait()
