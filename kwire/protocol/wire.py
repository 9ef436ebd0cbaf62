"""The parts of the wire format that generated codecs call instead of spelling them out.

Unsigned varints carry 7 bits a byte, least significant first, in at most 5 bytes. A compact
length is stored plus one, so that 0 can mean null. A tagged field is (tag, size, bytes).
"""

from kwire.protocol.file_slice import FileSlice, Records, RecordsParts

MAX_STRING_BYTES = 0x7FFF
"""Longest string in any version: Kafka keeps the limit of the old int16 length."""

MAX_ELEMENTS = 500_000
"""Most elements that the arrays of one message may hold together, unless the caller says less."""


class MalformedRequest(ValueError):
    """The bytes are not a message of the kind they should be."""


class TooManyElements(MalformedRequest):
    """The arrays of a message hold more elements together than whoever decodes it has room for."""


class UnencodableMessage(ValueError):
    """A message holds something that this version of it can't carry."""


def read_unsigned_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """The varint at ``position`` and the position after it; IndexError beyond the end."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedRequest("varint of more than 5 bytes")


def read_string_length(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """Like ``read_unsigned_varint``, for the compact length of a string (its bytes plus one)."""
    length, position = read_unsigned_varint(buffer, position)
    if length > MAX_STRING_BYTES + 1:
        raise MalformedRequest(f"string of {length - 1} bytes")
    return length, position


def skip_tagged_fields(buffer: bytes | memoryview, position: int, count: int, end: int) -> int:
    """The position after ``count`` tagged fields that nobody here knows.

    ``count`` is the first byte of the count; where it says there are more, ``position`` is that
    of the next one.
    """
    if count > 127:
        count, position = read_unsigned_varint(buffer, position - 1)
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size_bytes, position = read_unsigned_varint(buffer, position)
        position += size_bytes
        if position > end:
            raise MalformedRequest("tagged field longer than the message")
    return position


def append_unsigned_varint(out: bytearray, value: int) -> None:
    """Append ``value`` (0 to 2**32 - 1) as a varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_string_length(out: bytearray, length: int) -> None:
    """Append the compact length of a string, its bytes plus one."""
    if length > MAX_STRING_BYTES + 1:
        raise UnencodableMessage(f"string of {length - 1} bytes")
    append_unsigned_varint(out, length)


def append_records(
    out: bytearray, slices: list[tuple[int, FileSlice]], records: Records, compact: bool
) -> None:
    """Append the length and the bytes of ``records``, which aren't None.

    File slices take no room in ``out``: each is noted in ``slices`` with the length that ``out``
    has where its bytes belong.
    """
    if isinstance(records, FileSlice | RecordsParts):
        _append_size(out, records.size_bytes, compact)
        parts = records.parts if isinstance(records, RecordsParts) else (records,)
        for part in parts:
            if isinstance(part, FileSlice):
                slices.append((len(out), part))
            else:
                out += part
    elif records is None:
        raise UnencodableMessage("records can't be null here")
    else:
        _append_size(out, len(records), compact)
        out += records


def _append_size(out: bytearray, size_bytes: int, compact: bool) -> None:
    if not compact:
        out += size_bytes.to_bytes(4, "big")
        return
    value = size_bytes + 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
