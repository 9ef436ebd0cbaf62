"""Which batches the event loop opens or recompresses itself, as far as their headers show.

Rules:

- A batch that takes longer than about half a millisecond belongs to a thread. The limits hold for
  the worst data that we know, because a client chooses its data. They were measured with such data.
- The header of a compressed batch doesn't show how many bytes another codec would have to compress.
  So only a small one gets its codec on the event loop, where it may decompress to no more than
  ``RECOMPRESSED_BYTES``.
"""

from kwire.record.batch import HEADER_BYTES, RecordBatch
from kwire.record.compression import Compression

AT_ONCE_BYTES = 2 * 1024 * 1024
"""The event loop checks and writes a batch of up to this size in one go, in a few milliseconds.
Kafka's default of ``max.message.bytes`` is half of it."""

SLOW_RECORDS = 100

SMALL_COMPRESSED_BYTES = 1024
RECOMPRESSED_BYTES = 2 * 1024
"""What a batch that is decompressed and compressed on the event loop may have, before and between.
Few batches of the first size decompress to more than the second."""

_PLAIN_BYTES = 16 * 1024

DECOMPRESSION_BYTES: dict[int, int] = {
    Compression.GZIP: 4 * 1024,
    Compression.SNAPPY: 16 * 1024,
    Compression.LZ4: 16 * 1024,
    Compression.ZSTD: 4 * 1024,
}
"""How many compressed bytes of one batch the event loop reads. The blocks of gzip and zstd may each
have a table of codes and no content: 4 KiB of them take 400 µs."""

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_SIZE_AT = 5
_LZ4_64_KIB = 4
"""The place of the descriptor in an lz4 frame that has the largest size of its blocks, in the bits
4 to 6, and the number there that clients write by default. 5 to 7 are 256 KiB, 1 MiB and 4 MiB."""

COMPRESSION_BYTES: dict[Compression, int] = {
    Compression.NONE: _PLAIN_BYTES,
    Compression.GZIP: 4 * 1024,
    Compression.SNAPPY: 16 * 1024,
    Compression.LZ4: 2 * 1024,
    Compression.ZSTD: 16 * 1024,
}
"""How many bytes of one batch the event loop compresses at ``CHEAP_LEVELS``. Short runs of equal
bytes, or bytes of few values, take longest. The time of lz4 grows faster than their number: 2 KiB
take 500 µs, 16 KiB 6 ms."""

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
    most_bytes = DECOMPRESSION_BYTES.get(batch.compression, _PLAIN_BYTES)
    return batch.records_count <= SLOW_RECORDS and batch.size_bytes - HEADER_BYTES <= most_bytes


def is_quick_to_recompress(batch: RecordBatch, codec: Compression, level: int | None) -> bool:
    """Whether the event loop may give a batch that it has opened another codec."""
    have_bytes = batch.size_bytes - HEADER_BYTES
    if batch.compression:
        if have_bytes > SMALL_COMPRESSED_BYTES:
            return False
        have_bytes = RECOMPRESSED_BYTES
    is_cheap = level is None or level <= CHEAP_LEVELS[codec]
    return is_cheap and have_bytes <= COMPRESSION_BYTES[codec]
