"""Where each record of a batch lies in its payload, without building the records.

For compaction, which looks at every record and copies the bytes of most. Headers aren't looked at.
"""

from typing import NamedTuple

from kwire.errors import ErrorCode
from kwire.record.batch import Buffer, InvalidRecords, RecordBatch
from kwire.record.compression import DEFAULT_MAX_BYTES, decompress
from kwire.record.varint import append_varint, read_varint

_NULL_LENGTH = 1
"""The one byte of a length of -1, which stands for null."""


class RecordSpan(NamedTuple):
    """One record: it takes ``payload[start:end]``, its length in front included.

    ``delta_end`` is the position after the timestamp delta.
    """

    start: int
    end: int
    timestamp_delta: int
    delta_end: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def payload(batch: RecordBatch, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """The records of a batch, decompressed; InvalidRecords (CORRUPT_MESSAGE)."""
    return bytes(decompress(batch.compression, batch.payload, max_bytes))


def record_spans(records: bytes, count: int) -> list[RecordSpan]:
    """The ``count`` records in a payload; InvalidRecords where there aren't so many."""
    spans = []
    position = 0
    size_bytes = len(records)
    try:
        for _ in range(count):
            start = position
            length, position = read_varint(records, position)
            end = position + length
            timestamp_delta, delta_end = read_varint(records, position + 1)
            offset_delta, position = read_varint(records, delta_end)
            length, position = read_varint(records, position)
            key = None
            if length >= 0:
                key = records[position : position + length]
                position += length
            if not position < end <= size_bytes:
                raise _invalid("a record does not fit")
            has_value = records[position] != _NULL_LENGTH
            # A plain tuple of the right shape costs a third of what the constructor does.
            spans.append(
                tuple.__new__(
                    RecordSpan,
                    (start, end, timestamp_delta, delta_end, offset_delta, key, has_value),
                )
            )
            position = end
    except IndexError as error:
        raise _invalid("the records are cut short") from error
    if position != size_bytes:
        raise _invalid(f"{size_bytes - position} bytes follow the last record")
    return spans


def append_shifted(out: bytearray, records: Buffer, span: RecordSpan, shift_ms: int) -> None:
    """Append a record whose timestamp delta is ``shift_ms`` larger than it was."""
    rest = records[span.delta_end : span.end]
    delta = bytearray()
    append_varint(delta, span.timestamp_delta + shift_ms)
    append_varint(out, 1 + len(delta) + len(rest))
    out.append(records[_attributes_position(records, span)])
    out += delta
    out += rest


def _attributes_position(records: Buffer, span: RecordSpan) -> int:
    """Where the record's attributes are: after its length."""
    position = span.start
    while records[position] & 0x80:
        position += 1
    return position + 1


def _invalid(message: str) -> InvalidRecords:
    return InvalidRecords(ErrorCode.INVALID_RECORD, message)
