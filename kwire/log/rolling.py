"""When a segment is full and the next one begins.

Rules: by size (``segment.bytes``, and never beyond 2 GiB), by an index that is full, by offsets
that no longer fit into an index entry, and by age: the time between the first batch and the new
one (``segment.ms`` less a part of ``segment.jitter.ms``), or since the segment was opened where the
first batch has no timestamp.

``is_full`` looks at one batch. A fast path: ``note_room`` says for all that follow, by three
numbers that the segment keeps, up to where ``is_full``, its slow, obvious twin, says no: both draw
the same line, which tests/log/test_rolling.py shows. The segment forgets the numbers when it
changes otherwise than by appends, or an index is full, and the log when the settings change.

Source: LogSegment.shouldRoll of Kafka.
"""

from zlib import crc32

from kwire.log.log_config import LogConfig
from kwire.log.segment import MAX_SEGMENT_BYTES, LogSegment
from kwire.record.batch import RecordBatch

MAX_RELATIVE_OFFSET = (1 << 31) - 1


def is_full(
    segment: LogSegment, batch: RecordBatch, last_offset: int, config: LogConfig, now_ms: int
) -> bool:
    """Whether a segment that isn't empty has no room for a batch that ends at ``last_offset``."""
    end = segment.size_bytes + batch.size_bytes
    if end > config.segment_bytes or end > MAX_SEGMENT_BYTES:
        return True
    if segment.offset_index.is_full or segment.time_index.is_full:
        return True
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    first = segment.first_timestamp()
    age_ms = batch.max_timestamp - first if first >= 0 else now_ms - segment.created_ms
    # Jitter only makes it less: where it isn't old without, there is nothing to compute.
    if age_ms <= config.segment_ms - config.segment_jitter_ms:
        return False
    return age_ms > config.segment_ms - _jitter_ms(segment, config)


def note_room(segment: LogSegment, config: LogConfig) -> None:
    """Note how much goes into a segment that isn't empty; nothing where the clock decides."""
    first = segment.first_timestamp()
    if first < 0 or segment.offset_index.is_full or segment.time_index.is_full:
        return
    segment.room_bytes = min(config.segment_bytes, MAX_SEGMENT_BYTES)
    segment.room_offset = segment.base_offset + MAX_RELATIVE_OFFSET
    segment.room_timestamp = first + config.segment_ms - _jitter_ms(segment, config)


def _jitter_ms(segment: LogSegment, config: LogConfig) -> int:
    """A part of ``segment.jitter.ms`` that differs from one segment to the next."""
    most = min(config.segment_jitter_ms, config.segment_ms)
    return crc32(str(segment.path("")).encode()) % most if most else 0
