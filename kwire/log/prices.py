"""What it costs to open or to recompress a batch on the event loop, as far as its header shows.

Rules:

- Prices are in units of work, of about 1 µs. They hold for the worst data that we know, because a
  client chooses its data: ``Pace`` has numbers that were measured with such data.
- A batch whose worst data would take longer than about half a millisecond is opened in a thread.
  Its price is None.
- The header of a compressed batch doesn't show how many bytes another codec would have to compress.
  So only a small one gets its codec on the event loop, where it may decompress to no more than
  ``RECOMPRESSED_BYTES``. Its price is that of so many bytes.
"""

from typing import NamedTuple

from kwire.record.batch import HEADER_BYTES, RecordBatch
from kwire.record.compression import Compression

AT_ONCE_BYTES = 2 * 1024 * 1024
"""The event loop checks and writes a batch of up to this size in one go, in a few milliseconds.
Kafka's default of ``max.message.bytes`` is half of it."""

SLOW_RECORDS = 100

OPENING_UNITS = 20
RECORD_UNITS = 2
"""The cost of opening any batch, and of each record."""

HEADERS_PER_UNIT = 2
BYTES_PER_HEADER_UNIT = 4
"""The cost of headers, as many as fit, because the batch's header doesn't count them."""

CODEC_UNITS = 150
"""The cost of decompressing as many bytes as the event loop ever does, whatever the codec. The cost
of reading the compressed bytes comes on top (``DECOMPRESSION``), and so does compressing."""

SMALL_COMPRESSED_BYTES = 1024
RECOMPRESSED_BYTES = 2 * 1024
"""What a batch that is decompressed and compressed on the event loop may have, before and between.
Few batches of the first size decompress to more than the second."""

COMPRESSING_UNITS = 20
"""The cost of compressing any batch; ``COMPRESSION`` has that of its bytes."""


class Pace(NamedTuple):
    """How many bytes the event loop reads of one batch, and how many of them for one unit."""

    most_bytes: int
    bytes_per_unit: int


_PLAIN = Pace(16 * 1024, 16 * 1024)

DECOMPRESSION: dict[int, Pace] = {
    Compression.GZIP: Pace(4 * 1024, 16),
    Compression.SNAPPY: Pace(16 * 1024, 128),
    Compression.LZ4: Pace(16 * 1024, 128),
    Compression.ZSTD: Pace(4 * 1024, 16),
}
"""The paces of reading compressed bytes. The blocks of gzip and zstd may each have a table of codes
and no content: 4 KiB of them take 400 µs."""

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_SIZE_AT = 5
_LZ4_64_KIB = 4
"""The place of the descriptor in an lz4 frame that has the largest size of its blocks, in the bits
4 to 6, and the number there that clients write by default. 5 to 7 are 256 KiB, 1 MiB and 4 MiB."""

COMPRESSION: dict[Compression, Pace] = {
    Compression.NONE: _PLAIN,
    Compression.GZIP: Pace(4 * 1024, 12),
    Compression.SNAPPY: Pace(16 * 1024, 200),
    Compression.LZ4: Pace(2 * 1024, 6),
    Compression.ZSTD: Pace(16 * 1024, 60),
}
"""The paces of compressing at ``CHEAP_LEVELS``. Short runs of equal bytes, or bytes of few values,
take longest. The time of lz4 grows faster than their number: 2 KiB take 500 µs, 16 KiB 6 ms."""

CHEAP_LEVELS: dict[Compression, int] = {
    Compression.NONE: 0,
    Compression.GZIP: 6,
    Compression.SNAPPY: 0,
    Compression.LZ4: 9,
    Compression.ZSTD: 3,
}
"""Kafka's default levels. Lower ones cost less; zstd 22 takes 4 ms for 2 KiB."""


def has_large_blocks(batch: RecordBatch) -> bool:
    """Whether more than 64 KiB may have to be decompressed before any of it can be counted.

    lz4 decompresses a block as a whole: 16 KiB of it become 4 MiB, which takes 3 ms. What isn't a
    frame has no blocks, and is refused when it is opened.
    """
    if batch.compression != Compression.LZ4:
        return False
    frame = batch.payload
    if len(frame) <= _LZ4_BLOCK_SIZE_AT or frame[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        return False
    return frame[_LZ4_BLOCK_SIZE_AT] >> 4 & 7 > _LZ4_64_KIB


def is_quick_to_open(batch: RecordBatch) -> bool:
    """Whether the event loop may open a batch, if it doesn't decompress to too much."""
    if has_large_blocks(batch):
        return False
    most_bytes = DECOMPRESSION.get(batch.compression, _PLAIN).most_bytes
    return batch.records_count <= SLOW_RECORDS and batch.size_bytes - HEADER_BYTES <= most_bytes


def units_to_open(batch: RecordBatch, max_headers: int) -> int:
    """The cost of opening a batch, decompressed or not, of which ``max_headers`` may be read."""
    payload_bytes = batch.size_bytes - HEADER_BYTES
    count, codec = batch.records_count, batch.compression
    units = OPENING_UNITS
    if count > 0:  # the header may say anything
        units += RECORD_UNITS * count
    headers_units = max_headers // HEADERS_PER_UNIT
    if codec:
        pace = DECOMPRESSION.get(codec, _PLAIN)
        return units + CODEC_UNITS + payload_bytes // pace.bytes_per_unit + headers_units
    room_units = payload_bytes // BYTES_PER_HEADER_UNIT
    return units + (room_units if room_units < headers_units else headers_units)


def units_to_recompress(batch: RecordBatch, codec: Compression, level: int | None) -> int | None:
    """The cost of giving a batch another codec, beside that of opening it."""
    have_bytes, pace = batch.size_bytes - HEADER_BYTES, COMPRESSION[codec]
    if batch.compression:
        if have_bytes > SMALL_COMPRESSED_BYTES:
            return None
        have_bytes = RECOMPRESSED_BYTES
    if have_bytes > pace.most_bytes or (level is not None and level > CHEAP_LEVELS[codec]):
        return None
    return COMPRESSING_UNITS + have_bytes // pace.bytes_per_unit
