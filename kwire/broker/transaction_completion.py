"""Completes transactions whose end is decided: writes their markers and the completing record.

Rules:

- The markers are written after the decision, in the same turn of the event loop. The completing
  record is written after the markers. The markers of a transaction with many partitions take
  several turns, so that other tasks have their turn in between.
- If one of the partitions has to be flushed before an acknowledgement (``flush.messages``), each
  step waits until the previous step is on the disk. After a power cut there must be no marker
  without its decision, and no completed transaction without its markers. A marker counts as written
  when it is on the disk. A marker whose sync failed is written again.
- If partitions have replicas, each step waits until the previous step is replicated. Otherwise a
  failover could lose a decision whose markers remain.
- Partitions that other brokers lead get their markers from these brokers (``remote_markers``).
- A step that fails is delayed. The next call of ``complete_transactions`` continues with that step.
"""

import logging
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import trio

from kwire.broker.flusher import Flush
from kwire.broker.markers import EndMarker, MarkedBroker, write_marker
from kwire.broker.partition import Partition
from kwire.broker.partition_coordinators import Loaded
from kwire.coordinator.transaction.coordinator import TransactionCoordinator
from kwire.coordinator.transaction.state import TopicPartition, Transaction
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import NO_LIMIT

if TYPE_CHECKING:
    from kwire.broker.delayed_response import Replication
    from kwire.broker.remote_markers import RemoteMarkers

log = logging.getLogger(__name__)

_OVERTAKEN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

MARKERS_PER_TURN = 50
"""After this many markers of one transaction, other tasks have their turn."""


Awaited: TypeAlias = "Flush | Replication | None"
"""The flush or the replication that a marker waits for until it counts as written."""


class _Written(NamedTuple):
    """The result of one try: the partitions that are done, each with the flush that its marker
    waits for, and the error of partitions that have to be tried again."""

    flushes: dict[TopicPartition, Awaited]
    delayed: KafkaError | None


LoadedTransactions: TypeAlias = Loaded[TransactionCoordinator]


class TransactionCompletion:
    """The ends of this broker's transactions; ``run`` has to run for ends that wait for a disk."""

    def __init__(self, broker: MarkedBroker) -> None:
        self._broker = broker
        self._nursery: trio.Nursery | None = None
        self._remote: RemoteMarkers | None = None
        self._under_way: dict[str, LoadedTransactions] = {}
        self._delayed: set[str] = set()

    async def run(self) -> None:
        """Own the tasks of the ends that wait for a disk, forever."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def complete_transactions(
        self, loaded: LoadedTransactions, *, tries_again: bool = True
    ) -> bool:
        """Complete every unfinished transaction; return whether no end has to be tried again.

        Ends that were delayed before are left alone unless ``tries_again``: they may be many.
        """
        is_done = True
        for transactional_id in list(loaded.coordinator.unfinished):
            is_delayed = transactional_id in self._delayed
            if (by := self._under_way.get(transactional_id)) is not None:
                is_done = is_done and by is loaded  # the try of an older epoch ends by itself
                continue
            if is_delayed and not tries_again:
                continue
            self._delayed.discard(transactional_id)
            prepared = loaded.coordinator.transactions[transactional_id]
            if (
                len(prepared.partitions) > MARKERS_PER_TURN
                or self._is_strict(loaded, prepared)
                or self._elsewhere(prepared)
            ):
                self._start_steps(loaded, transactional_id, is_news=not is_delayed)
                is_done = False  # the caller has to check later whether the end is complete
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
        log.log(level, "the end of transaction %r is delayed: %s", transactional_id, error)

    def _is_strict(self, loaded: LoadedTransactions, prepared: Transaction) -> bool:
        """Whether one of the partitions has replicas, or is flushed before an acknowledgement."""
        partitions = [loaded.partition, *self._partitions(prepared)]
        return any(
            partition.log.config.flush_messages != NO_LIMIT or partition.__class__ is not Partition
            for partition in partitions
        )

    def _partitions(self, prepared: Transaction) -> list[Partition]:
        """The partitions of a transaction that can be served."""
        found = []
        for topic, index in prepared.partitions:
            try:
                found.append(self._broker.partition(topic, index))
            except KafkaError:
                continue
        return found

    def _elsewhere(self, prepared: Transaction) -> dict[TopicPartition, int]:
        """The partitions of a transaction that other brokers lead, each with its leader."""
        if len(self._broker.image.brokers) < 2:
            return {}
        from kwire.broker.remote_markers import leaders_elsewhere

        return leaders_elsewhere(self._broker, prepared.partitions)

    def _start_steps(
        self, loaded: LoadedTransactions, transactional_id: str, *, is_news: bool
    ) -> None:
        if self._nursery is not None:
            assert transactional_id not in self._under_way, transactional_id
            self._under_way[transactional_id] = loaded
            self._nursery.start_soon(self._complete_in_steps, loaded, transactional_id, is_news)

    async def _complete_in_steps(
        self, loaded: LoadedTransactions, transactional_id: str, is_news: bool
    ) -> None:
        prepared = loaded.coordinator.transactions[transactional_id]
        try:
            await _on_disk(loaded.partition.flush)
            if loaded.committed is not None:
                await loaded.committed.replicated()
            written = await self._write_many(loaded, prepared)
            self._complete(loaded, transactional_id, await _all_on_disk(written))
        except KafkaError as error:
            self._delay(transactional_id, error, is_news=is_news)
        finally:
            del self._under_way[transactional_id]

    async def _write_many(self, loaded: LoadedTransactions, prepared: Transaction) -> _Written:
        """Write the missing markers; other tasks have their turn in between."""
        elsewhere = self._elsewhere(prepared)
        missing = sorted(prepared.partitions - elsewhere.keys())
        flushes: dict[TopicPartition, Awaited] = {}
        delayed: KafkaError | None = None
        if elsewhere:
            flushes, delayed = await self._write_elsewhere(loaded, prepared, elsewhere)
        for first in range(0, len(missing), MARKERS_PER_TURN):
            if first:
                await trio.lowlevel.checkpoint()
            turn = missing[first : first + MARKERS_PER_TURN]
            written = self._write_markers(loaded, prepared, turn)
            flushes |= written.flushes
            delayed = written.delayed or delayed
        return _Written(flushes, delayed)

    async def _write_elsewhere(
        self,
        loaded: LoadedTransactions,
        prepared: Transaction,
        elsewhere: dict[TopicPartition, int],
    ) -> _Written:
        """Have other brokers write the markers of the partitions that they lead."""
        if self._remote is None:
            from kwire.broker.remote_markers import RemoteMarkers

            assert self._nursery is not None  # this task runs in the nursery
            self._remote = RemoteMarkers(self._broker, self._nursery)
        marker = _marker(loaded, prepared)
        sent = await self._remote.send(marker, elsewhere)
        written = _Written({}, sent.failure)
        for (topic, index), code in sent.codes.items():
            if code is ErrorCode.NONE:
                written.flushes[topic, index] = None
            else:
                error = KafkaError(code, f"broker {elsewhere[topic, index]} refused the marker")
                written = self._refused(written, (topic, index), marker, error)
        return written

    def _write_markers(
        self, loaded: LoadedTransactions, prepared: Transaction, missing: list[TopicPartition]
    ) -> _Written:
        marker = _marker(loaded, prepared)
        written = _Written({}, None)
        for topic, index in missing:
            try:
                written.flushes[topic, index] = write_marker(self._broker, marker, topic, index)
            except KafkaError as error:
                written = self._refused(written, (topic, index), marker, error)
        return written

    def _refused(
        self, written: _Written, partition: TopicPartition, marker: EndMarker, error: KafkaError
    ) -> _Written:
        """Add a partition that refused its marker: to be tried again, unless it needs none."""
        topic, index = partition
        is_gone = self._broker.image.partition(topic, index) is None
        if not is_gone and error.code not in _OVERTAKEN:
            return written._replace(delayed=error)
        log.warning("%s-%d needs no marker for %s: %s", topic, index, marker, error)
        written.flushes[topic, index] = None
        return written

    def _complete(
        self, loaded: LoadedTransactions, transactional_id: str, written: _Written
    ) -> None:
        """Write that every marker is there; KafkaError if a partition has to be tried again."""
        assert self._under_way.get(transactional_id, loaded) is loaded, transactional_id
        loaded.coordinator.markers_written(transactional_id, written.flushes)
        if written.delayed is not None:
            raise written.delayed
        now_ms = self._broker.now_ms()
        loaded.runtime.carry_out(loaded.coordinator.complete(transactional_id, now_ms))


def _marker(loaded: LoadedTransactions, prepared: Transaction) -> EndMarker:
    return EndMarker(
        prepared.producer_id,
        prepared.producer_epoch,
        loaded.partition.leader_epoch,
        prepared.is_committing,
        prepared.client_version,
    )


async def _all_on_disk(written: _Written) -> _Written:
    """Wait for the flushes; a partition whose flush failed has to be tried again."""
    flushes: dict[TopicPartition, Awaited] = {}
    delayed = written.delayed
    for partition, flush in written.flushes.items():
        try:
            await _on_disk(flush)
        except KafkaError as error:
            delayed = error
        else:
            flushes[partition] = None
    return _Written(flushes, delayed)


async def _on_disk(flush: Awaited) -> None:
    """Wait for a flush, if there is one; KafkaError."""
    if flush is not None:
        await flush.wait()
