"""Bringing transactions to the end that is decided: their markers, and the record that says so.

Rules:

- The markers follow the decision in the same turn, and the completing record follows the markers.
- Where one of the partitions has to be on the disk before it is acknowledged (``flush.messages``),
  each step waits until the one before is there: a power cut must not leave a marker without its
  decision, nor a completed transaction without its markers.
- What can't be written waits; ``finish`` is called again and goes on where it was.
"""

import logging

import trio

from kwire.broker.broker import Broker
from kwire.broker.markers import EndMarker, write_marker
from kwire.broker.partition import Partition
from kwire.coordinator.transaction.coordinator import TransactionCoordinator
from kwire.coordinator.transaction.state import Transaction
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import NO_LIMIT
from kwire.runtime import CoordinatorRuntime

log = logging.getLogger(__name__)

_OVERTAKEN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


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

    def __init__(self, broker: Broker) -> None:
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
            try:
                if self._is_strict(loaded, loaded.coordinator.transactions[transactional_id]):
                    self._finish_in_steps(loaded, transactional_id)
                    is_done = False  # somebody has to see whether it has come to its end
                else:
                    self._write_markers(loaded, transactional_id)
                    self._complete(loaded, transactional_id)
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

    def _finish_in_steps(self, loaded: LoadedTransactions, transactional_id: str) -> None:
        if self._nursery is not None:
            self._under_way.add(transactional_id)
            self._nursery.start_soon(self._step_by_step, loaded, transactional_id)

    async def _step_by_step(self, loaded: LoadedTransactions, transactional_id: str) -> None:
        try:
            await _on_disk(loaded.partition)
            marked = self._partitions(loaded.coordinator.transactions[transactional_id])
            self._write_markers(loaded, transactional_id)
            for partition in marked:
                await _on_disk(partition)
            self._complete(loaded, transactional_id)
        except KafkaError as error:
            log.warning("the end of transaction %r has to wait: %s", transactional_id, error)
        finally:
            self._under_way.discard(transactional_id)

    def _write_markers(self, loaded: LoadedTransactions, transactional_id: str) -> None:
        """Write the markers that are missing; KafkaError if one has to be tried again."""
        prepared = loaded.coordinator.transactions[transactional_id]
        marker = EndMarker(
            prepared.producer_id,
            prepared.producer_epoch,
            loaded.partition.leader_epoch,
            prepared.is_committing,
            prepared.client_version,
        )
        delayed: KafkaError | None = None
        for topic, index in sorted(prepared.partitions):
            try:
                write_marker(self._broker, marker, topic, index)
            except KafkaError as error:
                is_gone = self._broker.image.partition(topic, index) is None
                if not is_gone and error.code not in _OVERTAKEN:
                    delayed = error
                    continue
                log.warning("%s-%d needs no marker of %r: %s", topic, index, marker, error)
            loaded.coordinator.marker_written(transactional_id, (topic, index))
        if delayed is not None:
            raise delayed

    def _complete(self, loaded: LoadedTransactions, transactional_id: str) -> None:
        """Write that every marker is there; KafkaError if that has to be tried again."""
        now_ms = self._broker.now_ms()
        loaded.runtime.carry_out(loaded.coordinator.complete(transactional_id, now_ms))


async def _on_disk(partition: Partition) -> None:
    """Wait until what was written last is on the disk, where that is asked for; KafkaError."""
    flush = partition.flush
    if flush is not None:
        await flush.wait()
