"""The compression codecs of record batches, through libraries imported on first use.

Rules:

- Whatever a client sends, decompressing it never yields more than the bytes the caller allows;
  beyond that, and for broken data, InvalidRecords (CORRUPT_MESSAGE) is raised.
- gzip is RFC 1952, of one or several members; zstd is a frame, with or without a content size.
- lz4 is the frame format; its blocks are written independent of each other, since Kafka's Java
  reader (Lz4BlockInputStream) knows no others.
- snappy is written in the xerial framing of Kafka's Java client; raw blocks, which some clients
  write, are read as well. Format of a framed stream::

      82 "SNAPPY" 00 | version int32 | compatible version int32 | (block size int32 | raw block)…
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct

from kwire.errors import ErrorCode
from kwire.record.batch import Buffer, InvalidRecords


class TooLarge(InvalidRecords):
    """Records that decompress to more than the caller allows."""


class Compression(IntEnum):
    """The codec's number in the attributes of a batch; names as in ``compression.type``."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


BY_NAME: dict[str, Compression] = {
    "uncompressed": Compression.NONE,
    **{codec.name.lower(): codec for codec in Compression},
}
"""Codecs by the names that settings use."""

DEFAULT_LEVELS: dict[Compression, int] = {
    Compression.GZIP: -1,
    Compression.LZ4: 9,
    Compression.ZSTD: 3,
}
"""Kafka's defaults of ``compression.<codec>.level``."""

DEFAULT_MAX_BYTES = 256 * 1024 * 1024
"""Most bytes that a single batch may decompress to unless the caller says otherwise."""

_GZIP_MAGIC = b"\x1f\x8b"
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_HEADER_BYTES = 16
_XERIAL_BLOCK_BYTES = 32 * 1024
# The library has no bound on what it returns. A block takes at least 4 bytes and yields at most
# 128 KiB, so a step of this size yields at most 16 MiB before the check that follows it.
_ZSTD_STEP_BYTES = 512
_INT32 = Struct(">i")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """``data`` compressed; ``level`` is the codec's own scale, None for Kafka's default."""
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise _unknown(codec)
    default = DEFAULT_LEVELS.get(Compression(codec), 0)
    return compressor(data, default if level is None else level)


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> Buffer:
    """The records that ``data`` holds; ``data`` itself where nothing is compressed.

    Raises InvalidRecords (CORRUPT_MESSAGE) for broken data and for more than ``max_bytes``.
    """
    if codec == Compression.NONE:
        return data
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise _unknown(codec)
    try:
        return decompressor(data, max_bytes)
    except InvalidRecords:
        raise
    except Exception as error:  # each library has exceptions of its own, some of them bare
        name = Compression(codec).name.lower()
        raise InvalidRecords(
            ErrorCode.CORRUPT_MESSAGE, f"the records are not valid {name}: {error}"
        ) from error


def _unknown(codec: int) -> InvalidRecords:
    return InvalidRecords(ErrorCode.CORRUPT_MESSAGE, f"unknown compression codec {codec}")


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(
        ErrorCode.CORRUPT_MESSAGE, f"the records decompress to more than {max_bytes} bytes"
    )


def _compress_none(data: Buffer, level: int) -> bytes:
    return bytes(data)


def _compress_gzip(data: Buffer, level: int) -> bytes:
    import zlib

    compressor = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    import zlib

    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    out = decompressor.decompress(data, max_bytes + 1)
    if decompressor.unused_data.startswith(_GZIP_MAGIC):
        return _decompress_gzip_members(data, max_bytes)
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    if not decompressor.eof:
        raise InvalidRecords(ErrorCode.CORRUPT_MESSAGE, "the gzip stream is cut short")
    return out


def _decompress_gzip_members(data: Buffer, max_bytes: int) -> bytes:
    """Several gzip members in a row; the library reads them in time linear in their number."""
    import gzip
    import io

    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        out = file.read(max_bytes + 1)
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    return out


def _compress_snappy(data: Buffer, level: int) -> bytes:
    import cramjam

    view = memoryview(data)
    out = bytearray(_XERIAL_MAGIC + _XERIAL_VERSIONS)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES])
        out += _INT32.pack(len(block))
        out += bytes(block)
    return bytes(out)


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    """The raw blocks of a framed stream, or the whole as one block where there is no framing."""
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield view
        return
    if len(view) < _XERIAL_HEADER_BYTES:
        raise InvalidRecords(ErrorCode.CORRUPT_MESSAGE, "the header of the snappy stream is short")
    position = _XERIAL_HEADER_BYTES
    while position < len(view):
        (size_bytes,) = _INT32.unpack_from(view, position)
        position += 4
        if not 0 < size_bytes <= len(view) - position:
            raise InvalidRecords(
                ErrorCode.CORRUPT_MESSAGE, f"a snappy block of {size_bytes} bytes does not fit"
            )
        yield view[position : position + size_bytes]
        position += size_bytes


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    import cramjam

    out = bytearray()
    for block in _xerial_blocks(memoryview(data)):
        # A raw block opens with its decompressed size, so nothing large is made before the check.
        if len(out) + cramjam.snappy.decompress_raw_len(block) > max_bytes:
            raise _too_large(max_bytes)
        out += bytes(cramjam.snappy.decompress_raw(block))
    return bytes(out)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    import lz4.frame

    return bytes(lz4.frame.compress(data, compression_level=level, block_linked=False))


def _decompress_lz4(data: Buffer, max_bytes: int) -> bytes:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    out: bytes = decompressor.decompress(bytes(data), max_length=max_bytes + 1)
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    if not decompressor.eof:
        raise InvalidRecords(ErrorCode.CORRUPT_MESSAGE, "the lz4 frame is cut short")
    return out


def _compress_zstd(data: Buffer, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(data)


def _decompress_zstd(data: Buffer, max_bytes: int) -> bytes:
    import zstandard

    if not len(data):  # no frame at all is no data for Kafka's reader
        return b""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    view = memoryview(data)
    out = bytearray()
    for start in range(0, len(view), _ZSTD_STEP_BYTES):
        out += decompressor.decompress(view[start : start + _ZSTD_STEP_BYTES])
        if len(out) > max_bytes:
            raise _too_large(max_bytes)
        if decompressor.eof:
            return bytes(out)
    raise InvalidRecords(ErrorCode.CORRUPT_MESSAGE, "the zstd frame is cut short")


_COMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Compression.NONE: _compress_none,
    Compression.GZIP: _compress_gzip,
    Compression.SNAPPY: _compress_snappy,
    Compression.LZ4: _compress_lz4,
    Compression.ZSTD: _compress_zstd,
}

_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
