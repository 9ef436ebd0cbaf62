"""Writes a large batch in pieces before it is appended, so that others have turns in between.

One call of the system takes 200 to 500 ms for 90 MB, and all clients would wait for it.

Rules:

- Until the append, the pieces count as the remains of an append that has failed (``needs_cut``).
  Another append, a roll or a truncation in between cuts them off, as they would cut such remains.
  A crash does that, too. Then the writer begins again at the log's new end, in pieces twice as
  large: whoever appends again and again can't keep it from its end.
- ``needs_cut`` is the writer whose pieces they are. Another large batch cuts them off, too.
- A batch that isn't appended after all is cut off at once (``drop``).
- The batch's header is written last: a leader assigns the base offset only then.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kwire.errors import KafkaError
from kwire.log.partition_log import PartitionLog
from kwire.log.rolling import is_full
from kwire.log.segment import ALL_BYTES, LogSegment
from kwire.record.batch import HEADER_BYTES, RecordBatch

PIECE_BYTES = 1024 * 1024


class WriteAhead:
    """A batch on its way into a log, in which only the event loop writes."""

    def __init__(self, log: PartitionLog, batch: RecordBatch) -> None:
        self._log = log
        self._data = memoryview(batch.data)
        self._batch = batch
        self._segment: LogSegment | None = None
        self._position = self._truncations = self._done = 0
        self._piece_bytes = PIECE_BYTES

    def write_piece(self, now_ms: int) -> bool:
        """Write the next piece; True when all are written. KafkaError after a disk error."""
        if not self._goes_on():
            self._begin_writing(now_ms)
        assert self._segment is not None
        piece = self._data[self._done : self._done + self._piece_bytes]
        try:
            self._segment.write_ahead(piece, self._done)
        except OSError as error:
            raise self._log.undo_append(error) from error
        self._done += len(piece)
        assert HEADER_BYTES < self._done <= len(self._data), self._done
        return self._done == len(self._data)

    def _goes_on(self) -> bool:
        """Whether the pieces that are written are still at the end of the log."""
        log = self._log
        return (
            log.needs_cut is self
            and log.active is self._segment
            and log.active.size_bytes == self._position
            and log.truncations == self._truncations
            and not log.is_being_cut
        )

    def _begin_writing(self, now_ms: int) -> None:
        log = self._log
        log.check_writable()
        if self._is_full(now_ms):
            try:
                log.roll(now_ms)
            except OSError as error:
                raise log.undo_append(error) from error
        if self._segment is not None:
            self._piece_bytes *= 2
        log.needs_cut = self
        self._segment, self._position = log.active, log.active.size_bytes
        self._truncations, self._done = log.truncations, HEADER_BYTES

    def _is_full(self, now_ms: int) -> bool:
        """Whether a new segment has to begin; KafkaError if its file can't be read."""
        log, segment = self._log, self._log.active
        if not segment.size_bytes:
            return False
        first_offset = max(log.log_end_offset, self._batch.base_offset)  # a leader assigns it later
        last_offset = first_offset + self._batch.last_offset_delta
        try:
            return is_full(segment, self._batch, last_offset, log.config, now_ms)
        except OSError as error:
            raise log.undo_append(error) from error

    @contextmanager
    def written(self, now_ms: int) -> Iterator[None]:
        """Inside, the append of the batch at ``now_ms`` finds it written, except for its header.

        If it isn't at the log's end any more, or has to go into a new segment, it is written again.
        """
        log, end_offset = self._log, self._log.log_end_offset
        is_whole = self._done == len(self._data)
        if not (is_whole and self._goes_on()) or self._is_full(now_ms):
            yield
            return
        assert log.unwritten_bytes == ALL_BYTES  # one batch at a time is written ahead
        log.needs_cut, log.unwritten_bytes = False, HEADER_BYTES
        try:
            yield
        finally:
            log.unwritten_bytes = ALL_BYTES
            if log.log_end_offset == end_offset:  # it was refused, or is there already
                log.needs_cut = log.needs_cut or self
                self.cut_off()

    def cut_off(self) -> None:
        """Cut off what is written. If the disk refuses that, the next append cuts it off."""
        if self._log.needs_cut is self and not self._log.is_being_cut:
            with suppress(KafkaError):
                self._log.check_writable()
