"""Drives a coordinator: writes its records, replays them, answers its requests, runs its timers.

Rules:

- Records are written first, then the coordinator replays them, then the replies are given. If
  writing fails, nothing is replayed, every reply is an error, and the coordinator is rolled back.
- A request that waits for its answer has a ``Reply``. An operation that is answered at once never
  waits.
- The runtime doesn't wait for replication: connections do (``kwire.broker.delayed_response``).
- A coordinator is loaded by replaying its partition from the start, a piece at a time.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import trio

from kwire.coordinator.coordinator import Coordinator
from kwire.coordinator.debug_log import DebugNote
from kwire.coordinator.effects import Effects, Job, StateWork
from kwire.coordinator.records import CoordinatorRecord
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.codec import MalformedRequest
from kwire.record.batch import RecordBatch, TooLarge
from kwire.record.control import ControlType, control_type
from kwire.record.records import NO_PRODUCER, BatchBuilder, Record, records
from kwire.record.streaming_decompressor import Limits

log = logging.getLogger(__name__)

TURN_S = 0.005
"""While loading, other tasks get a turn after this time."""

PAUSE_RECORDS = 64
"""The number of records after which loading checks whether ``TURN_S`` has passed."""

SPLIT_BYTES = 512 * 1024
"""Records that need not be in one batch are written in batches of about this size."""

LOADED = Limits(max_bytes=100 * 1024 * 1024, max_records=1_000_000)
"""The most that a batch may hold when a coordinator loads it."""

WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The client's error for a failed write; other errors are passed on unchanged."""


def error_told(error: KafkaError) -> ErrorCode:
    """The client's error code for a failed write."""
    return WRITE_ERRORS.get(error.code, error.code)


class Flush(Protocol):
    """A write that has to reach the disk before it is acknowledged."""

    async def wait(self) -> None:
        """Wait until the write is on the disk; KafkaError if that failed."""


class Told(Protocol):
    """A request that waits for a reply."""

    def set(self) -> None:
        """Wake the request, because its reply is given."""


class Reply:
    """The answer to one operation. If ``told`` is set, its ``set`` is called with the answer.

    If ``flush`` is set, the caller has to wait for it before it sends the answer, because the
    records behind the answer must reach the disk first.
    """

    __slots__ = ("flush", "is_given", "response", "told")

    def __init__(self) -> None:
        self.is_given = False
        self.response: Any = None
        self.flush: Flush | None = None
        self.told: Told | None = None

    def give(self, response: Any, flush: Flush | None = None) -> None:
        """Set the answer."""
        self.response = response
        self.flush = flush
        self.is_given = True
        if self.told is not None:
            self.told.set()


class CoordinatorRuntime:
    """One coordinator and the partition that its records are written to.

    ``append(batch, date_ms)`` writes a batch and returns its first offset, or raises KafkaError.
    ``now_ms`` is the coordinator's clock. ``date_ms`` is the date for its records, by default the
    same clock. ``schedule(deadline_ms)`` is called with the time of the coordinator's next timer.
    ``compression`` is the codec of the records. ``flush()`` returns the Flush that the last write
    needs, None if the page cache is enough. ``do_afterwards(function)`` calls a function later that
    no answer depends on, here the logging of notes. ``begin(job)`` runs a long job and hands in its
    result; by default the job runs at once. ``persist(work)`` begins or ends share states, and
    hands in the outcome.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        append: Callable[[bytearray, int], int],
        now_ms: Callable[[], int],
        schedule: Callable[[int], None],
        compression: int = 0,
        flush: Callable[[], Flush | None] = lambda: None,
        do_afterwards: Callable[[Callable[[], object]], object] = lambda do: do(),
        begin: Callable[[Job], object] | None = None,
        date_ms: Callable[[], int] | None = None,
        persist: Callable[[StateWork], object] = lambda work: None,
    ) -> None:
        self.coordinator = coordinator
        self._append = append
        self._now_ms = now_ms
        self._schedule = schedule
        self._compression = compression
        self._flush = flush
        self._do_afterwards = do_afterwards
        self._begin = begin or self._do_at_once
        self._date_ms = date_ms or now_ms
        self._persist = persist

    def carry_out(self, effects: Effects) -> None:
        """Write, replay and answer. If writing fails, all replies are errors; raises KafkaError."""
        if effects.notes:
            self._do_afterwards(partial(_log_notes, effects.notes))
        try:
            if effects.records:
                self._write(effects)
        except KafkaError as error:
            raise self._give_up(effects, error) from error
        flush = self._flush() if effects.records else None
        for waiter, response in effects.replies:
            _give_response(waiter, response, flush)
        for job in effects.jobs:
            self._begin(job)
        for work in effects.state_work:
            self._persist(work)
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is not None:
            self._schedule(deadline_ms)

    def _do_at_once(self, job: Job) -> None:
        self.carry_out(job.hand_in(job.work(), self._now_ms()))

    def end_transaction(self, marker: bytearray, producer_id: int, *, committed: bool) -> None:
        """Write the marker that ends a transaction in this partition, and apply it.

        Raises KafkaError as ``append`` does.
        """
        self._append(marker, self._date_ms())
        self.coordinator.replay_end_transaction(producer_id, committed=committed)

    def _write(self, effects: Effects) -> None:
        now_ms, date_ms = self._now_ms(), self._date_ms()
        coordinator = self.coordinator
        producer = effects.producer
        is_transactional = producer is not NO_PRODUCER
        for written in [effects.records] if effects.is_atomic else _split(effects.records):
            builder = BatchBuilder()
            for record in written:
                builder.add(date_ms, record.key, record.value)
            batch = builder.build(
                compression=self._compression, producer=producer, transactional=is_transactional
            )
            first = self._append(batch, date_ms)
            for offset, record in enumerate(written, first):
                if record.content is not None:
                    coordinator.take_in(record.content, offset, producer.producer_id, now_ms)
                else:
                    replayed = Record(offset, date_ms, record.key, record.value)
                    coordinator.replay(replayed, producer.producer_id, now_ms, loading=False)

    def _give_up(self, effects: Effects, error: KafkaError) -> KafkaError:
        """Roll back after a failed write, and answer with errors; returns the caller's error."""
        told = KafkaError(error_told(error), error.message)
        undone = self.coordinator.undo(effects, self._now_ms())
        for waiter, response in effects.replies:
            _give_response(waiter, type(response)(error_code=told.code))
        with suppress(KafkaError):
            self.carry_out(undone)
        return told

    def tick(self, now_ms: int) -> bool:
        """Run the first timer if it is due; returns whether it was.

        Raises KafkaError if its records can't be written.
        """
        deadline = self.coordinator.next_deadline_ms()
        if deadline is None or deadline > now_ms:
            return False
        self.carry_out(self.coordinator.tick(now_ms))
        return True

    async def load(self, batches: Iterable[RecordBatch]) -> None:
        """Replay a partition from its start, then start the coordinator.

        A damaged record is skipped with an error in the log, so that the other records aren't lost.
        The part of a batch beyond ``LOADED`` is skipped too, because no coordinator has written it.
        A coordinator also begins if its first records can't be written yet, for example because too
        few replicas are in sync. Raises KafkaError if a batch is damaged.
        """
        give_way_at = trio.current_time() + TURN_S
        for batch in batches:
            for _ in self._load_batch(batch):
                if trio.current_time() >= give_way_at:
                    await trio.lowlevel.checkpoint()
                    give_way_at = trio.current_time() + TURN_S
        try:
            self.carry_out(self.coordinator.begin(self._now_ms()))
        except KafkaError as error:
            log.warning("a coordinator begins without its first records: %s", error)

    def _load_batch(self, batch: RecordBatch) -> Iterator[None]:
        """Replay a batch; yields after every few records."""
        if not batch.records_count:
            return  # compaction has left only the header
        batch.verify_crc()
        if batch.is_control:
            committed = control_type(batch) == ControlType.COMMIT
            self.coordinator.replay_end_transaction(batch.producer_id, committed=committed)
            return
        producer_id = batch.producer_id if batch.is_transactional else -1
        now_ms = self._now_ms()
        try:
            for count, record in enumerate(records(batch, LOADED)):
                try:
                    self.coordinator.replay(record, producer_id, now_ms, loading=True)
                except MalformedRequest as error:
                    log.error("skipped the damaged record at offset %d: %s", record.offset, error)
                if count % PAUSE_RECORDS == 0:
                    yield
        except TooLarge as beyond:
            log.error("skipped the rest of the batch at offset %d: %s", batch.base_offset, beyond)


def _split(written: list[CoordinatorRecord]) -> Iterator[list[CoordinatorRecord]]:
    part: list[CoordinatorRecord] = []
    size_bytes = 0
    for record in written:
        part.append(record)
        size_bytes += len(record.key) + len(record.value or b"")
        if size_bytes >= SPLIT_BYTES:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _log_notes(notes: list[str]) -> None:
    for note in notes:
        log.log(logging.DEBUG if isinstance(note, DebugNote) else logging.INFO, "%s", note)


def _give_response(waiter: object, response: Any, flush: Flush | None = None) -> None:
    assert isinstance(waiter, Reply)
    waiter.give(response, flush)
