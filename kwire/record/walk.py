"""Checking the records of a batch without building them.

Rules:

- Every length must fit, and the last record must end at the last byte, else InvalidRecords.
- Offsets that don't ascend one by one from 0 are no error here, because Kafka appends them as they
  are.
- As in Kafka, a negative length of a key or value means null, and a record's own attributes have no
  meaning.
- Keys, values and headers are skipped and not kept in memory. A batch takes no more memory than one
  piece of it, whatever it decompresses to (``kwire.record.feed``).

Source: DefaultRecord of Kafka.
"""

from collections.abc import Iterator

from kwire.record.batch import LOG_APPEND_TIME, RecordBatch
from kwire.record.feed import NO_LIMITS, Between, Limits, RecordFeed, invalid, nothing_between
from kwire.record.varint import read_varint

_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


def walk_records(
    batch: RecordBatch, limits: Limits = NO_LIMITS, between: Between = nothing_between
) -> Iterator[tuple[int, int, bool]]:
    """Check the records of a batch one by one; yields timestamp in ms, offset delta, has a key.

    Raises InvalidRecords: CORRUPT_MESSAGE if decompressing fails, INVALID_RECORD if the bytes
    aren't the records that the header counts. Raises TooLarge beyond the limits.
    """
    feed = RecordFeed(batch, limits, between)
    base = batch.base_timestamp
    append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    for _ in range(batch.records_count):
        time_delta, offset_delta, has_key = _walk_record(feed)
        timestamp = base + time_delta if append_time is None else append_time
        if timestamp > _INT64_MAX:
            raise invalid(f"timestamp {timestamp} does not fit into 64 bits")
        yield timestamp, offset_delta, has_key
    if not feed.is_at_end():
        raise invalid("bytes follow the last record")


def record_times(
    batch: RecordBatch, limits: Limits = NO_LIMITS, between: Between = nothing_between
) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each record; the rest of a record isn't checked.

    Raises InvalidRecords as ``walk_records`` does.
    """
    feed = RecordFeed(batch, limits, between)
    append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    for _ in range(batch.records_count):
        buffer = feed.buffer
        try:
            length, position = read_varint(buffer, feed.position)
            end = position + length
            timestamp_delta, position = read_varint(buffer, position + 1)
            offset_delta, position = read_varint(buffer, position)
            is_whole = end <= len(buffer)
        except IndexError:
            is_whole = False
        if is_whole:
            if position >= end:
                raise invalid(f"a record of {length} bytes does not fit")
            feed.position = end
        else:
            timestamp_delta, offset_delta, _ = _walk_across(feed)
        time = batch.base_timestamp + timestamp_delta if append_time is None else append_time
        yield batch.base_offset + offset_delta, time


def _walk_record(feed: RecordFeed) -> tuple[int, int, bool]:
    """Timestamp and offset deltas of the next record, and whether it has a key."""
    buffer = feed.buffer
    try:
        length, position = read_varint(buffer, feed.position)
        end = position + length
        is_whole = end <= len(buffer)
    except IndexError:
        is_whole = False
    if not is_whole:
        return _walk_across(feed)
    if length < 0:
        raise invalid(f"a record of {length} bytes does not fit")
    try:
        timestamp_delta, position = read_varint(buffer, position + 1)
        offset_delta, position = read_varint(buffer, position)
        key_length, position = read_varint(buffer, position)
        if key_length > 0:
            position += key_length
        position = _skip_bytes(buffer, position, end)
        position = _skip_headers(feed, position, end) if buffer[position] else position + 1
    except IndexError as error:
        raise invalid("the records are cut short") from error
    if position != end:
        raise _left_over(length, end - position)
    feed.position = end
    return timestamp_delta, offset_delta, key_length >= 0


def _walk_across(feed: RecordFeed) -> tuple[int, int, bool]:
    """As ``_walk_record``, for a record that isn't wholly in the buffer."""
    length = feed.varint()
    if length < 0:
        raise invalid(f"a record of {length} bytes does not fit")
    end = feed.done_bytes + length
    feed.skip(1)
    timestamp_delta, offset_delta = feed.varint(), feed.varint()
    has_key = _skip_field(feed, end)
    _skip_field(feed, end)
    count = feed.varint()
    if count:
        feed.count_headers(count, end - feed.done_bytes)
    for _ in range(count):
        if not _skip_field(feed, end):
            raise invalid("a header has no key")
        _skip_field(feed, end)
    if feed.done_bytes != end:
        raise _left_over(length, end - feed.done_bytes)
    return timestamp_delta, offset_delta, has_key


def _skip_field(feed: RecordFeed, end: int) -> bool:
    """Skip a key or value that must end before ``end``; returns False if it is null."""
    length = feed.varint()
    if feed.done_bytes + length > end:
        raise _no_room(length)
    if length > 0:
        feed.skip(length)
    return length >= 0


def _skip_headers(feed: RecordFeed, position: int, end: int) -> int:
    buffer = feed.buffer
    count, position = read_varint(buffer, position)
    if count == 0:
        return position
    feed.count_headers(count, end - position)
    for _ in range(count):
        if buffer[position] & 1:
            raise invalid("a header has no key")
        position = _skip_bytes(buffer, _skip_bytes(buffer, position, end), end)
    return position


def _skip_bytes(buffer: bytes, position: int, end: int) -> int:
    length, position = read_varint(buffer, position)
    if position + length > end:
        raise _no_room(length)
    return position + length if length > 0 else position


def _no_room(length: int) -> Exception:
    return invalid(f"a key or value of {length} bytes does not fit into the record")


def _left_over(length: int, left: int) -> Exception:
    return invalid(f"a record of {length} bytes has {left} bytes left over")
