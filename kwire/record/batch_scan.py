"""Reading the headers of batches from a file, without the records between them."""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from kwire.record.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES

_FIELDS = Struct(">qii5xhiqqq")
"""base offset, length, leader epoch, (magic, crc), attributes, last offset delta, timestamps,
producer id."""


class BatchHeader(NamedTuple):
    """Position and offsets of a batch; sizes and positions are bytes, timestamps ms."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp: int
    producer_id: int


def scan_headers(
    read: Callable[[int, int], bytes], position: int, end: int, chunk_bytes: int
) -> Iterator[BatchHeader]:
    """The headers from ``position`` up to ``end``, or up to an incomplete batch.

    ``read(position, size)`` reads bytes of the file; each call asks for up to ``chunk_bytes``.
    """
    chunk = b""
    chunk_start = position
    while position + HEADER_BYTES <= end:
        at = position - chunk_start
        if not 0 <= at <= len(chunk) - HEADER_BYTES:
            chunk = read(position, min(chunk_bytes, end - position))
            chunk_start, at = position, 0
            if len(chunk) < HEADER_BYTES:
                return
        base_offset, length, epoch, attributes, delta, _, max_timestamp, producer_id = (
            _FIELDS.unpack_from(chunk, at)
        )
        size_bytes = length + LOG_OVERHEAD_BYTES
        if size_bytes < HEADER_BYTES or position + size_bytes > end:
            return
        yield BatchHeader(
            position,
            size_bytes,
            base_offset,
            base_offset + delta,
            epoch,
            attributes,
            max_timestamp,
            producer_id,
        )
        position += size_bytes
