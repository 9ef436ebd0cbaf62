"""Walking through the records of a batch without building them, to see whether they are sound.

Rules:

- Every length must fit, and the last record end at the last byte: else InvalidRecords.
- Offsets that don't ascend one by one from 0 are noted, no error: Kafka appends them as they are.
- As in Kafka a negative length of a key or value means that there is none, and a record's own
  attributes mean nothing.

Source: DefaultRecord of Kafka.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kwire.errors import ErrorCode
from kwire.record.batch import LOG_APPEND_TIME, InvalidRecords, RecordBatch
from kwire.record.compression import DEFAULT_MAX_BYTES, decompress
from kwire.record.varint import read_varint

_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


class RecordWalk(NamedTuple):
    """What was seen: timestamps in ms, one for each record, and the places without a key."""

    timestamps: list[int]
    keyless: list[int]
    is_in_order: bool


def walk_records(batch: RecordBatch, max_bytes: int = DEFAULT_MAX_BYTES) -> RecordWalk:
    """Look at every record of a batch; decompresses to at most ``max_bytes``.

    Raises InvalidRecords: CORRUPT_MESSAGE where decompressing fails, INVALID_RECORD where the bytes
    aren't the records that the header counts.
    """
    if batch.records_count < 0:
        raise _invalid(f"a batch with {batch.records_count} records")
    buffer = bytes(decompress(batch.compression, batch.payload, max_bytes))
    timestamps: list[int] = []
    keyless: list[int] = []
    is_in_order = True
    position = 0
    try:
        for place in range(batch.records_count):
            position, timestamp_delta, offset_delta, has_key = _walk_record(buffer, position)
            timestamps.append(batch.base_timestamp + timestamp_delta)
            if offset_delta != place:
                is_in_order = False
            if not has_key:
                keyless.append(place)
    except IndexError as error:
        raise _invalid("the records are cut short") from error
    if position != len(buffer):
        raise _invalid(f"{len(buffer) - position} bytes follow the last record")
    if batch.timestamp_type == LOG_APPEND_TIME:
        timestamps = [batch.max_timestamp] * len(timestamps)
    elif timestamps and max(timestamps) > _INT64_MAX:
        raise _invalid(f"timestamp {max(timestamps)} does not fit into 64 bits")
    return RecordWalk(timestamps, keyless, is_in_order)


def record_times(batch: RecordBatch) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of one record after the other; the rest of them isn't looked at.

    Raises InvalidRecords as ``walk_records`` does.
    """
    buffer = bytes(decompress(batch.compression, batch.payload))
    append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    position = 0
    try:
        for _ in range(batch.records_count):
            length, position = read_varint(buffer, position)
            end = position + length
            timestamp_delta, position = read_varint(buffer, position + 1)
            offset_delta, position = read_varint(buffer, position)
            if not position < end <= len(buffer):
                raise _invalid(f"a record of {length} bytes does not fit")
            time = batch.base_timestamp + timestamp_delta if append_time is None else append_time
            yield batch.base_offset + offset_delta, time
            position = end
    except IndexError as error:
        raise _invalid("the records are cut short") from error


def _walk_record(buffer: bytes, position: int) -> tuple[int, int, int, bool]:
    """The position after a record, its timestamp and offset deltas, and whether it has a key."""
    length, position = read_varint(buffer, position)
    end = position + length
    if length < 0 or end > len(buffer):
        raise _invalid(f"a record of {length} bytes does not fit")
    timestamp_delta, position = read_varint(buffer, position + 1)
    offset_delta, position = read_varint(buffer, position)
    key_length, position = read_varint(buffer, position)
    if key_length > 0:
        position += key_length
    position = _skip_bytes(buffer, position, end)
    position = _skip_headers(buffer, position, end)
    if position != end:
        raise _invalid(f"a record of {length} bytes has {end - position} bytes left over")
    return position, timestamp_delta, offset_delta, key_length >= 0


def _skip_headers(buffer: bytes, position: int, end: int) -> int:
    count, position = read_varint(buffer, position)
    if count == 0:
        return position
    # A header takes two bytes at least: an empty key and a null value.
    if not 0 < count <= (end - position) // 2:
        raise _invalid(f"{count} headers do not fit into the record")
    for _ in range(count):
        if buffer[position] & 1:
            raise _invalid("a header has no key")
        position = _skip_bytes(buffer, _skip_bytes(buffer, position, end), end)
    return position


def _skip_bytes(buffer: bytes, position: int, end: int) -> int:
    length, position = read_varint(buffer, position)
    if position + length > end:
        raise _invalid(f"a key or value of {length} bytes does not fit into the record")
    return position + length if length > 0 else position


def _invalid(message: str) -> InvalidRecords:
    return InvalidRecords(ErrorCode.INVALID_RECORD, message)
