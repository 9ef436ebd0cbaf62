"""The functions for the wire format that generated codecs call.

An unsigned varint carries 7 bits in each byte, the least significant bits first, in at most 5
bytes. A compact length is a varint of the length plus one, so that 0 can mean null. A tagged field
is (tag, size, bytes).
"""

from kwire.protocol.file_slice import FileSlice, Records, RecordsParts

MAX_STRING_BYTES = 0x7FFF
"""The longest string in any version: Kafka keeps the limit of the old int16 length."""

MAX_BINARY_BYTES = 16 << 20
"""The longest value of bytes, records aside. Kafka's clients send some kilobytes, a group's leader
some megabytes. Freeing one of 100 MB would stop the event loop for 10 ms."""

MAX_ELEMENTS = 500_000
"""The most elements in all arrays of one message together, unless the caller sets fewer."""

MAX_TAGGED_FIELDS = 255
"""The most tagged fields of one struct. Kafka's messages have up to four."""


class MalformedRequest(ValueError):
    """The bytes are not a message of the expected class and version."""


class TooManyElements(MalformedRequest):
    """All arrays of a message together hold more elements than the caller allows."""


class UnencodableMessage(ValueError):
    """A message holds a value that this version of the message can't carry."""


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


def read_tagged_fields_count(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number of tagged fields and the position after it; ``position`` is behind its first byte.

    Raises MalformedRequest for more than ``MAX_TAGGED_FIELDS``: two bytes are enough for a tagged
    field, so a request of 100 MB would stop the event loop for ten seconds.
    """
    count, position = read_unsigned_varint(buffer, position - 1)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedRequest(f"{count} tagged fields in one struct")
    return count, position


def skip_tagged_fields(buffer: bytes | memoryview, position: int, count: int, end: int) -> int:
    """The position after the tagged fields at ``position``, all of them unknown to kwire.

    ``count`` is the first byte of the varint with their number. Where the varint has more bytes
    (``count`` > 127), ``position`` is the position of its second byte.
    """
    if count > 127:
        count, position = read_tagged_fields_count(buffer, position)
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
    """Append the compact length of a string, which is its number of bytes plus one."""
    if length > MAX_STRING_BYTES + 1:
        raise UnencodableMessage(f"string of {length - 1} bytes")
    append_unsigned_varint(out, length)


def problem_of_string(text: str) -> str | None:
    """Why no message can carry a string, as the end of a sentence about it; None if one can.

    For strings that come from elsewhere than a message, and are to be told in messages.
    """
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        return "isn't text: it holds half of a surrogate pair"
    if size_bytes > MAX_STRING_BYTES:
        return f"has {size_bytes} bytes, and may have {MAX_STRING_BYTES}"
    return None


def append_records(
    out: bytearray, slices: list[tuple[int, FileSlice]], records: Records, compact: bool
) -> None:
    """Append the length and the bytes of ``records``; UnencodableMessage if they are None.

    The bytes of a file slice don't go into ``out``. ``slices`` gets the slice, with its position:
    the length of ``out`` at the place where the bytes of the slice belong.
    """
    if isinstance(records, FileSlice):
        _append_size(out, records.size_bytes, compact)
        slices.append((len(out), records))
    elif isinstance(records, RecordsParts):
        _append_size(out, records.size_bytes, compact)
        for part in records.parts:
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
