"""Varints: integers with 7 bits per byte, lowest bits first, zigzag for the sign.

Source: ByteUtils of Kafka, KIP-98.
"""

from kwire.errors import ErrorCode
from kwire.record.batch import Buffer, InvalidRecords

_UINT64_MAX = 0xFFFF_FFFF_FFFF_FFFF
_SHIFTS = (0, 7, 14, 21, 28, 35, 42, 49, 56, 63)


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The number at ``position``, up to 64 bits, and the position after it.

    Raises IndexError if the buffer ends too early, InvalidRecords (INVALID_RECORD) for a number of
    more than 10 bytes.
    """
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = 0
    for shift in _SHIFTS:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= _UINT64_MAX
            return (value >> 1) ^ -(value & 1), position
    raise InvalidRecords(ErrorCode.INVALID_RECORD, "a varint of more than 10 bytes")


def append_varint(out: bytearray, value: int) -> None:
    """Append a number."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
