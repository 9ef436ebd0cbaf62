"""Checking the records of a batch without building them.

Rules:

- Every length must fit, and the last record must end at the last byte, else InvalidRecords.
- Offsets that don't ascend one by one from 0 are no error here, because Kafka appends them as they
  are.
- As in Kafka, a negative length of a key or value means null, and a record's own attributes have no
  meaning.
- Keys, values and headers are skipped and not kept in memory. A batch takes no more memory than one
  piece of it, whatever it decompresses to (``kwire.record.streaming_decompressor``).

Source: DefaultRecord of Kafka.
"""

from collections.abc import Iterator

from kwire.record.batch import LOG_APPEND_TIME, RecordBatch
from kwire.record.streaming_decompressor import (
    NO_LIMITS,
    BetweenPieces,
    Limits,
    StreamingDecompressor,
    do_nothing,
    invalid,
    unfit,
)
from kwire.record.varint import read_varint

_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


def validate_records(
    batch: RecordBatch, limits: Limits = NO_LIMITS, between: BetweenPieces = do_nothing
) -> Iterator[tuple[int, int, bool]]:
    """Check the records of a batch one by one; yields timestamp in ms, offset delta, has a key.

    Raises InvalidRecords: CORRUPT_MESSAGE if decompressing fails, INVALID_RECORD if the bytes
    aren't the records that the header counts. Raises TooLarge beyond the limits.
    """
    stream = StreamingDecompressor(batch, limits, between)
    base = batch.base_timestamp
    append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    for _ in range(batch.records_count):
        time_delta, offset_delta, has_key = _validate_record(stream)
        timestamp = base + time_delta if append_time is None else append_time
        if timestamp > _INT64_MAX:
            raise invalid(f"timestamp {timestamp} does not fit into 64 bits")
        yield timestamp, offset_delta, has_key
    if not stream.is_at_end():
        raise invalid("bytes follow the last record")


def record_times(
    batch: RecordBatch, limits: Limits = NO_LIMITS, between: BetweenPieces = do_nothing
) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each record; the rest of a record isn't checked.

    Raises InvalidRecords as ``validate_records`` does.
    """
    stream = StreamingDecompressor(batch, limits, between)
    append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    for _ in range(batch.records_count):
        buffer = stream.buffer
        try:
            length, position = read_varint(buffer, stream.position)
            end = position + length
            timestamp_delta, position = read_varint(buffer, position + 1)
            offset_delta, position = read_varint(buffer, position)
            is_whole = end <= len(buffer)
        except IndexError:
            is_whole = False
        if is_whole:
            if position >= end:
                raise invalid(f"a record of {length} bytes does not fit")
            if length > stream.max_record_bytes:
                raise unfit(length, stream.max_record_bytes)
            stream.position = end
        else:
            timestamp_delta, offset_delta, _ = _validate_across_pieces(stream)
        time = batch.base_timestamp + timestamp_delta if append_time is None else append_time
        yield batch.base_offset + offset_delta, time


def _validate_record(stream: StreamingDecompressor) -> tuple[int, int, bool]:
    """Timestamp and offset deltas of the next record, and whether it has a key."""
    buffer = stream.buffer
    try:
        length, position = read_varint(buffer, stream.position)
        end = position + length
        is_whole = end <= len(buffer)
    except IndexError:
        is_whole = False
    if not is_whole:
        return _validate_across_pieces(stream)
    if not 0 <= length <= stream.max_record_bytes:
        raise unfit(length, stream.max_record_bytes)
    try:
        timestamp_delta, position = read_varint(buffer, position + 1)
        offset_delta, position = read_varint(buffer, position)
        key_length, position = read_varint(buffer, position)
        if key_length > 0:
            position += key_length
        position = _skip_bytes(buffer, position, end)
        position = _skip_headers(stream, position, end) if buffer[position] else position + 1
    except IndexError as error:
        raise invalid("the records are cut short") from error
    if position != end:
        raise _left_over(length, end - position)
    stream.position = end
    return timestamp_delta, offset_delta, key_length >= 0


def _validate_across_pieces(stream: StreamingDecompressor) -> tuple[int, int, bool]:
    """As ``_validate_record``, for a record that isn't wholly in the buffer."""
    length = stream.varint()
    if not 0 <= length <= stream.max_record_bytes:
        raise unfit(length, stream.max_record_bytes)
    end = stream.done_bytes + length
    stream.skip(1)
    timestamp_delta, offset_delta = stream.varint(), stream.varint()
    has_key = _skip_field(stream, end)
    _skip_field(stream, end)
    count = stream.varint()
    if count:
        stream.count_headers(count, end - stream.done_bytes)
    for _ in range(count):
        if not _skip_field(stream, end):
            raise invalid("a header has no key")
        _skip_field(stream, end)
    if stream.done_bytes != end:
        raise _left_over(length, end - stream.done_bytes)
    return timestamp_delta, offset_delta, has_key


def _skip_field(stream: StreamingDecompressor, end: int) -> bool:
    """Skip a key or value that must end before ``end``; returns False if it is null."""
    length = stream.varint()
    if stream.done_bytes + length > end:
        raise _no_room(length)
    if length > 0:
        stream.skip(length)
    return length >= 0


def _skip_headers(stream: StreamingDecompressor, position: int, end: int) -> int:
    buffer = stream.buffer
    count, position = read_varint(buffer, position)
    if count == 0:
        return position
    stream.count_headers(count, end - position)
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
