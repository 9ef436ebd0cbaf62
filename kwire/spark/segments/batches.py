"""The batches in a stretch of a segment's bytes, and the wanted records in them.

The headers of all batches become one numpy array. Batches that aren't wanted (aborted transactions,
offsets and timestamps out of bounds) are neither checked nor decompressed.

A checksum that is wrong, a length that doesn't fit, an old format, and zeros anywhere but at the
end of the last segment raise CorruptSegment with file and position.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any

import numpy as np

from kwire.record.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_MASK,
)
from kwire.record.checksum import crc32c
from kwire.spark.segments.errors import CorruptSegment
from kwire.spark.segments.files import OpenSegment
from kwire.spark.segments.planning import Bounds, Task

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
"""The header of a batch, as in ``kwire.record.batch``."""

BLOCK_BYTES = 4 * 1024 * 1024
"""How many bytes are read at a time, unless a single batch is larger."""

LARGEST_BATCH_BYTES = 1024 * 1024 * 1024
"""Positions within Arrow's arrays are numbers of 32 bits."""

_LENGTH = Struct(">i")
_LENGTH_AT = 8
_MAGIC_AT = 16


class Block:
    """Whole batches of a segment: the bytes, each batch's position in them, and the headers."""

    def __init__(self, segment: OpenSegment, position: int, data: bytes, starts: list[int]) -> None:
        self.segment = segment
        self.position = position
        self.data = data
        self.starts = np.array(starts, np.int64)
        raw = np.frombuffer(data, np.uint8)
        self.headers: Any = raw[self.starts[:, None] + np.arange(HEADER_BYTES)].view(HEADER)[:, 0]

    def last_offsets(self) -> Any:
        """Each batch's last offset."""
        return self.headers["base_offset"].astype(np.int64) + self.headers["last_offset_delta"]

    def wanted(self, task: Task, bounds: Bounds) -> Any:
        """The indexes of the batches that may have wanted records."""
        headers = self.headers
        attributes = headers["attributes"]
        keep = (headers["base_offset"] < task.end) & (self.last_offsets() >= task.first)
        # Compaction leaves batches without records; Kafka's reader doesn't decompress these either.
        keep &= ((attributes & CONTROL_MASK) == 0) & (headers["count"] != 0)
        if bounds.bound_times:
            keep &= headers["max_timestamp"] >= bounds.first_timestamp
        if task.aborted:
            transactional = (attributes & TRANSACTIONAL_MASK) != 0
            for aborted in task.aborted:
                keep &= ~(
                    transactional
                    & (headers["producer_id"] == aborted.producer_id)
                    & (headers["base_offset"] >= aborted.first_offset)
                    & (headers["base_offset"] <= aborted.last_offset)
                )
        return np.flatnonzero(keep)

    def check_without_rows(self, offset: int, end: int) -> None:
        """Raise CorruptSegment unless batches without rows, as their headers say, are intact.

        Control batches, and batches that compaction has emptied, are small. A large batch with such
        a header is damaged.
        """
        is_without = (self.headers["attributes"] & CONTROL_MASK) != 0
        is_without |= self.headers["count"] == 0
        is_without &= (self.headers["base_offset"] < end) & (self.last_offsets() >= offset)
        for index in np.flatnonzero(is_without).tolist():
            self.payload(index)

    def payload(self, index: int) -> tuple[int, memoryview]:
        """A batch's codec, and its records, whose checksum is right."""
        start = int(self.starts[index])
        header = self.headers[index]
        end = start + int(header["length"]) + LOG_OVERHEAD_BYTES
        view = memoryview(self.data)[start:end]
        if crc32c(view[ATTRIBUTES_AT:]) != int(header["crc"]):
            raise self.error(index, "the checksum is wrong")
        return int(header["attributes"]) & COMPRESSION_MASK, view[HEADER_BYTES:]

    def error(self, index: int, reason: str) -> CorruptSegment:
        """The exception for a batch."""
        first = int(self.headers["base_offset"][index])
        last = int(self.last_offsets()[index])
        position = self.position + int(self.starts[index])
        return CorruptSegment(
            f"{self.segment.path}, position {position}, offsets {first} to {last}: {reason}"
        )


def blocks(
    segment: OpenSegment, position: int, end_offset: int, *, is_rolled: bool = False
) -> Iterator[Block]:
    """The batches from ``position`` on, up to the one before ``end_offset`` or the file's end.

    Raises CorruptSegment if a batch that begins before ``end_offset`` isn't whole. Zeros end a
    segment that isn't rolled, if nothing else follows them: that is a preallocated file.
    """
    while position + HEADER_BYTES <= segment.size_bytes:
        data = segment.read(position, BLOCK_BYTES)
        starts, after, needed = _whole_batches(segment, position, data)
        if not starts and needed:
            if needed > LARGEST_BATCH_BYTES:
                raise CorruptSegment(
                    f"{segment.path}, position {position}: a batch of {needed} bytes is larger"
                    f" than {LARGEST_BATCH_BYTES}"
                )
            data = segment.read(position, needed)
            starts, after, needed = _whole_batches(segment, position, data)
        if not starts:
            break
        block = Block(segment, position, data, starts)
        yield block
        if int(block.last_offsets()[-1]) + 1 >= end_offset:
            return
        position += after
    rest = segment.read(position, HEADER_BYTES)
    place = f"{segment.path}, position {position}"
    if any(rest):
        if int.from_bytes(rest[:_LENGTH_AT], "big") < end_offset:
            raise CorruptSegment(f"{place}: a batch is cut short")
    elif rest and (is_rolled or not _are_zeros(segment, position)):
        raise CorruptSegment(f"{place}: zeros stand where a batch should begin")


def _are_zeros(segment: OpenSegment, position: int) -> bool:
    """Whether a segment has only zeros from a position on."""
    while data := segment.read(position, BLOCK_BYTES):
        if data.count(0) != len(data):
            return False
        position += len(data)
    return True


def _whole_batches(segment: OpenSegment, position: int, data: bytes) -> tuple[list[int], int, int]:
    """The positions in ``data`` of the batches that are whole, and the position after them.

    The third number is the size of the batch that follows, 0 if the file ends within it.
    """
    starts: list[int] = []
    at = 0
    while at + HEADER_BYTES <= len(data):
        (length,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
        size = length + LOG_OVERHEAD_BYTES
        magic = data[at + _MAGIC_AT]
        if magic != MAGIC or size < HEADER_BYTES:
            if not any(data[at : at + HEADER_BYTES]):
                return starts, at, 0  # a preallocated file has zeros after its last batch
            if starts:
                return starts, at, HEADER_BYTES  # the damaged batch may not be wanted
            raise _no_batch(segment, position + at, magic, length)
        if at + size > len(data):
            is_whole = position + at + size <= segment.size_bytes
            return starts, at, size if is_whole else 0
        starts.append(at)
        at += size
    return starts, at, HEADER_BYTES


def _no_batch(segment: OpenSegment, position: int, magic: int, length: int) -> CorruptSegment:
    place = f"{segment.path}, position {position}"
    if magic < MAGIC and length > 0:
        return CorruptSegment(
            f"{place}: message format v{magic}, which Kafka 4 no longer reads either; a consumer"
            " of Kafka 3 can copy the topic"
        )
    return CorruptSegment(f"{place}: no batch begins here (magic {magic}, length {length})")
