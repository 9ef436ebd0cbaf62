"""Confluent's wire format: the header of a value whose schema is in a registry.

A zero byte, the schema's id (4 bytes, big-endian), then the value. Protobuf has the message's
indexes between the id and the value: a zigzag varint for their number, then one for each index. The
number 0 stands for the single index 0, the schema's first message.
"""

from kwire.schemas.undecodable import Undecodable

HEADER_BYTES = 5
_MAX_INDEXES = 64
_MAX_VARINT_BYTES = 5


def schema_id(value: bytes) -> int:
    """The id of a value's schema; Undecodable if the value has no such header."""
    if not value:
        raise Undecodable("it is empty")
    if len(value) < HEADER_BYTES:
        raise Undecodable(f"{len(value)} bytes are too short for a schema id")
    if value[0] != 0:
        raise Undecodable(f"the first byte is {value[0]}, not 0: it isn't in a registry's format")
    return int.from_bytes(value[1:HEADER_BYTES], "big")


def message_indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """The path of a Protobuf message in its schema, and where the message begins; Undecodable."""
    count, position = _varint(value, HEADER_BYTES)
    if count == 0:
        return (0,), position
    if not 0 < count <= _MAX_INDEXES:
        raise Undecodable(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _varint(value, position)
        indexes.append(index)
    return tuple(indexes), position


def _varint(value: bytes, position: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(value[position : position + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + place + 1
    raise Undecodable("the message indexes are cut off")


def header(schema: int, indexes: tuple[int, ...] | None = None) -> bytes:
    """The header of a value; with ``indexes``, of a Protobuf message."""
    start = b"\x00" + schema.to_bytes(4, "big")
    if indexes is None:
        return start
    if indexes == (0,):
        return start + b"\x00"
    return start + b"".join(map(_encoded, (len(indexes), *indexes)))


def _encoded(number: int) -> bytes:
    left = number << 1
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
