"""Batches of which a part can't be read."""

from kwire.record.batch import ATTRIBUTES_AT, HEADER_BYTES
from kwire.record.checksum import crc32c
from kwire.record.records import BatchBuilder


def damaged(good: int, claimed: int, base_offset: int = 0) -> bytearray:
    """A batch of ``claimed`` offsets with a right checksum; ``good`` records, then a wrong one."""
    builder = BatchBuilder(base_offset)
    for _ in range(good):
        builder.add(0, b"k", b"v")
    builder.add(0, b"k", b"v", (("name", b"v"),))
    found = builder.build(last_offset_delta=claimed - 1)
    found[HEADER_BYTES - 4 : HEADER_BYTES] = claimed.to_bytes(4, "big")  # of records
    found[found.index(b"\x08name")] = 0x01  # the header's name is null
    found[ATTRIBUTES_AT - 4 : ATTRIBUTES_AT] = crc32c(found[ATTRIBUTES_AT:]).to_bytes(4, "big")
    return found
