"""Decides when a segment is full and the next one begins.

Rules: a segment is full by size (``segment.bytes``, never beyond 2 GiB), if an index is full, if an
offset no longer fits into an index entry, or by age. The age is the time between the timestamps of
the first batch and the new batch. Its limit is ``segment.ms`` less a part of ``segment.jitter.ms``.
If the first batch has no timestamp, the age counts from when the segment was opened.

``is_full`` decides for one batch. ``note_room`` serves a fast path: it stores three limits in the
segment, and a batch within all of them needs no call of ``is_full``, the slow and obvious twin.
Both accept the same batches, as tests/log/test_rolling.py shows. The segment drops the limits when
an index becomes full, and at every change other than an append. The log drops them when its
settings change.

Source: LogSegment.shouldRoll of Kafka.
"""

from contextlib import suppress
from zlib import crc32

from kwire.errors import KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.segment import MAX_SEGMENT_BYTES, LogSegment
from kwire.record.batch import RecordBatch

MAX_RELATIVE_OFFSET = (1 << 31) - 1


def is_full(
    segment: LogSegment, batch: RecordBatch, last_offset: int, config: LogConfig, now_ms: int
) -> bool:
    """Whether a non-empty segment has no room for a batch that ends at ``last_offset``."""
    end = segment.size_bytes + batch.size_bytes
    if end > config.segment_bytes or end > MAX_SEGMENT_BYTES:
        return True
    if segment.offset_index.is_full or segment.time_index.is_full:
        return True
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    first = segment.first_timestamp()
    age_ms = batch.max_timestamp - first if first >= 0 else now_ms - segment.created_ms
    # Jitter only lowers the limit: a segment younger than the lowest possible limit isn't full.
    if age_ms <= config.segment_ms - config.segment_jitter_ms:
        return False
    return age_ms > config.segment_ms - _jitter_ms(segment, config)


def note_room(segment: LogSegment, config: LogConfig) -> None:
    """Store the limits of a non-empty segment, unless its age depends on the clock."""
    first = segment.first_timestamp()
    if first < 0 or segment.offset_index.is_full or segment.time_index.is_full:
        return
    segment.room_bytes = min(config.segment_bytes, MAX_SEGMENT_BYTES)
    segment.room_offset = segment.base_offset + MAX_RELATIVE_OFFSET
    segment.room_timestamp = first + config.segment_ms - _jitter_ms(segment, config)


def note_room_if_any(segment: LogSegment, config: LogConfig) -> None:
    """Store the limits of a segment unless it is empty; an append meets the errors, and raises."""
    if segment.size_bytes:
        with suppress(OSError, KafkaError):
            note_room(segment, config)


def _jitter_ms(segment: LogSegment, config: LogConfig) -> int:
    """A part of ``segment.jitter.ms`` that differs from one segment to the next."""
    most = min(config.segment_jitter_ms, config.segment_ms)
    return crc32(str(segment.path("")).encode()) % most if most else 0
