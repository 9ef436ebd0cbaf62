"""Record batches built byte by byte, so that any field of them can be wrong.

The format is that of KIP-98 (magic 2). Nothing here comes from the broker under test but its
compression codecs; what a field isn't told is what a well-behaved producer writes.
"""

import struct
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from kwire.record.compression import compress

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_FROM = 21

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


def varint(value: int) -> bytes:
    """A zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized(value: bytes | None) -> bytes:
    """A length and its bytes, -1 for None."""
    return varint(-1) if value is None else varint(len(value)) + value


def record(
    offset_delta: int,
    key: bytes | None = b"k",
    value: bytes | None = b"value",
    *,
    timestamp_delta: int = 0,
    attributes: int = 0,
    headers: Sequence[tuple[bytes | None, bytes | None]] = (),
    header_count: int | None = None,
    length: int | None = None,
    extra: bytes = b"",
) -> bytes:
    """One record; ``extra`` are bytes inside of it after its headers."""
    body = struct.pack(">b", attributes) + varint(timestamp_delta) + varint(offset_delta)
    body += sized(key) + sized(value)
    body += varint(len(headers) if header_count is None else header_count)
    for name, content in headers:
        body += sized(name) + sized(content)
    body += extra
    return varint(len(body) if length is None else length) + body


def batch(
    records: Sequence[bytes],
    *,
    codec: int = 0,
    attributes: int = 0,
    payload: bytes | None = None,
    right_crc: bool = True,
    extra: bytes = b"",
    timestamp: int = -1,
    **fields: Any,
) -> bytes:
    """One batch of records; ``fields`` are those of the header, by their names."""
    body = b"".join(records)
    if payload is None:
        payload = bytes(compress(codec, body)) if codec in (1, 2, 3, 4) else body
    values = {
        "base_offset": 0,
        "batch_length": HEADER.size - 12 + len(payload),
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": attributes | codec,
        "last_offset_delta": len(records) - 1,
        "base_timestamp": timestamp,
        "max_timestamp": timestamp,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": len(records),
    }
    assert fields.keys() <= values.keys(), fields
    values |= fields
    out = bytearray(HEADER.pack(*values.values())) + payload
    crc = crc32c(bytes(out[CRC_FROM:])) if right_crc else 12345
    struct.pack_into(">I", out, 17, crc)
    return bytes(out) + extra
