"""The values of kwire's keys in etcd.

Format:

- A commit is ``{"by": writer, "changes": […]}``. A commit whose changes are too large for one key
  is ``{"by": writer, "parts": n}``; n keys hold its changes.
- The parts of a large commit or of a snapshot are slices of one zlib stream, whose text has one
  change as JSON in each line. So a reader parses one change at a time: parsing all in one call
  would hold the interpreter until its end.
- A value above 4 KiB is compressed with zlib. The first byte shows whether it is compressed: JSON
  begins with ``{``, a zlib stream with 0x78.
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kwire.metadata.changes import Change, from_items, from_json, to_json

COMPRESSED_ABOVE_BYTES = 4 << 10
PART_BYTES = 256 << 10
"""The largest value; etcd takes 1.5 MiB, but larger values keep its other writers waiting."""

LARGEST_BYTES = 1 << 30
"""The most bytes that a value or the parts of a commit may have when they are unpacked."""


class Written(NamedTuple):
    """A decoded commit: its writer, and its changes or the number of its parts."""

    by: str
    changes: Sequence[Change]
    parts: int


class Encoded(NamedTuple):
    """An encoded commit: the value of its key, and the values of its parts' keys."""

    value: bytes
    parts: Sequence[bytes]


def encode_commit(by: str, changes: Sequence[Change]) -> Encoded:
    """The values that a commit is made of."""
    value = _pack(f'{{"by": {json.dumps(by)}, "changes": {to_json(changes)}}}'.encode())
    if len(value) <= PART_BYTES:
        return Encoded(value, ())
    parts = encode_parts(changes)
    return Encoded(json.dumps({"by": by, "parts": len(parts)}).encode(), parts)


def decode_commit(value: bytes) -> Written:
    """Decode a commit's value; ValueError, TypeError, LookupError if it is damaged."""
    found = json.loads(_unpack(value))
    if "parts" in found:
        return Written(found["by"], (), found["parts"])
    return Written(found["by"], from_items(found["changes"]), 0)


def encode_parts(changes: Iterable[Change]) -> list[bytes]:
    """The values of the parts that hold these changes."""
    packer = zlib.compressobj()
    stream = bytearray()
    for change in changes:
        stream += packer.compress(to_json([change])[1:-1].encode() + b"\n")
    stream += packer.flush()
    return [bytes(stream[at : at + PART_BYTES]) for at in range(0, len(stream), PART_BYTES)]


def decode_parts(parts: Iterable[bytes]) -> list[Change]:
    """The changes in parts; errors as in ``decode_commit``."""
    lines = _unpack(b"".join(parts)).splitlines()
    return [change for line in lines for change in from_json(f"[{line.decode()}]")]


def _pack(text: bytes) -> bytes:
    return zlib.compress(text) if len(text) > COMPRESSED_ABOVE_BYTES else text


def _unpack(value: bytes) -> bytes:
    if value[:1] == b"{":
        return value
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(value, LARGEST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("a compressed value is incomplete")
    return text
