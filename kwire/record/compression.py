"""The compression codecs of record batches, through libraries imported on first use.

Rules:

- Decompressing never yields more bytes than the caller allows, whatever a client has sent. Beyond
  that limit TooLarge (MESSAGE_TOO_LARGE) is raised, for broken data InvalidRecords
  (CORRUPT_MESSAGE).
- ``decompressed`` yields one piece after the other. It holds only one piece in memory, and the data
  that the codec refers back to: 32 KiB (gzip), a block (lz4, snappy), the frame's window (zstd, at
  most 128 MiB, and no more than was decompressed so far).
- gzip is RFC 1952, with one or several members. zstd is a frame, with or without a content size.
- lz4 is the frame format. Its blocks are written independent of each other, because Kafka's Java
  reader (Lz4BlockInputStream) can't read linked blocks.
- snappy is written in the xerial framing of Kafka's Java client. Raw blocks, which some clients
  write, can be read too. Format of a framed stream::

      82 "SNAPPY" 00 | version int32 | compatible version int32 | (block size int32 | raw block)…

- The zstd library has no limit on what one call returns, so the blocks of a zstd frame (RFC 8878)
  are passed to it one by one. A block yields at most 128 KiB, but may take as little as 4 bytes.
  Format of a block's header, from the lowest bit: is last 1 bit | type 2 bits | size 21 bits. A
  block of type 1 repeats one byte; other blocks are as long as their size says.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from enum import IntEnum
from struct import Struct
from typing import Any

from kwire.errors import ErrorCode
from kwire.record.batch import Buffer, InvalidRecords, TooLarge


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
"""The most bytes that a single batch may decompress to, unless the caller sets another limit."""

STRETCH_BYTES = 16 * 1024
"""The size of a decompressed piece; zstd and snappy have block sizes of their own."""

PIECE_BYTES = 1024
"""A batch may have one piece for each so many bytes of its limit. The reason: an empty piece takes
as long as so many decompressed bytes."""

FREE_PIECES = 64
"""How many more pieces a batch may have, so that a low limit allows small pieces, too."""

MOST_FROM_A_BYTE: dict[int, int] = {
    Compression.NONE: 1,
    Compression.GZIP: 1032,
    Compression.SNAPPY: 22,
    Compression.LZ4: 255,
    Compression.ZSTD: 32 * 1024,
}
"""The most bytes that one compressed byte can become, by the format of each codec."""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_STEP_BYTES = 16 * 1024
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_HEADER_BYTES = 16
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4_STEP_BYTES = 4096
_LZ4_HAS_SIZE = 0x08
_LZ4_HEADER_BYTES, _LZ4_SIZED_HEADER_BYTES, _LZ4_MOST_HEADER_BYTES = 7, 15, 19
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_MAX_WINDOW_BYTES = 1 << 27  # the window of level 22, and zstd's own default limit
_ZSTD_BLOCK_HEADER_BYTES = 3
_ZSTD_REPEATED_BYTE = 1
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
"""What follows the first byte, 0x50 to 0x5f, of a frame without data."""

_ZSTD_SKIPPABLE_HEADER_BYTES = 8
_ZSTD_MOST_HEADER_BYTES = 18
_ZSTD_CHECKSUM_BYTES = 4
_INT32 = Struct(">i")
_MOST_VARINT_BYTES = 5


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress ``data``; ``level`` is on the codec's own scale, None for Kafka's default."""
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise _unknown(codec)
    default = DEFAULT_LEVELS.get(Compression(codec), 0)
    return compressor(data, default if level is None else level)


def compressed(codec: int, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
    """As ``compress``, for data that comes in pieces; yields pieces."""
    compressor = _STREAM_COMPRESSORS.get(codec)
    if compressor is None:
        raise _unknown(codec)
    default = DEFAULT_LEVELS.get(Compression(codec), 0)
    return compressor(pieces, default if level is None else level)


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> Buffer:
    """Decompress ``data``; returns ``data`` itself for codec NONE.

    Raises InvalidRecords (CORRUPT_MESSAGE) for broken data. Raises TooLarge for more than
    ``max_bytes``, and for so many small frames or blocks that they take as long.
    """
    if codec == Compression.NONE:
        return data
    return b"".join(decompressed(codec, data, max_bytes))


def decompressed(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> Iterator[bytes]:
    """As ``decompress``, but yields pieces, some of which may be empty.

    Uncompressed data comes in pieces too.
    """
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise _unknown(codec)
    done = 0
    most_pieces = FREE_PIECES + max_bytes // PIECE_BYTES
    try:
        for number, piece in enumerate(decompressor(memoryview(data), max_bytes)):
            done += len(piece)
            if done > max_bytes:
                raise _too_large(max_bytes)
            if number >= most_pieces:
                raise TooLarge(f"the records are in more than {most_pieces} frames or blocks")
            yield piece
    except InvalidRecords:
        raise
    except Exception as error:  # each library raises its own exceptions, some of them bare
        name = Compression(codec).name.lower()
        raise InvalidRecords(
            ErrorCode.CORRUPT_MESSAGE, f"the records are not valid {name}: {error}"
        ) from error


def has_possible_claim(codec: int, data: memoryview, least_bytes: int) -> bool:
    """Whether compressed data begins as its codec's does, and claims no impossible size.

    That is, it claims to become at least ``least_bytes`` bytes, and no more than its bytes can
    become. True for data that claims nothing. This is a look at a few bytes, so it proves nothing.
    It is also False for some data that is right but rare, like several gzip members: only data that
    is opened shows that.
    """
    try:
        claimed_bytes = _CLAIMS[codec](data)
    except Exception:  # each library raises its own exceptions
        return False
    if claimed_bytes is None:
        return True
    return least_bytes <= claimed_bytes <= len(data) * MOST_FROM_A_BYTE[codec]


def _claim_of_gzip(data: memoryview) -> int | None:
    """The last four bytes of a member are its size."""
    if data[: len(_GZIP_MAGIC)] != _GZIP_MAGIC:
        return 0
    return int.from_bytes(data[-4:], "little")


def _claim_of_snappy(data: memoryview) -> int | None:
    """A raw block begins with its size."""
    import cramjam

    first = next(_xerial_blocks(data), None)
    if first is None:
        return 0
    claimed_bytes = cramjam.snappy.decompress_raw_len(first[:_MOST_VARINT_BYTES])
    if claimed_bytes > len(first) * MOST_FROM_A_BYTE[Compression.SNAPPY]:
        return -1
    is_alone = len(first) + _XERIAL_HEADER_BYTES + _INT32.size >= len(data)
    return claimed_bytes if is_alone else None


def _claim_of_lz4(data: memoryview) -> int | None:
    """A frame may say its size; one without blocks has none."""
    import lz4.frame

    info = lz4.frame.get_frame_info(data[:_LZ4_MOST_HEADER_BYTES])
    if info["content_size"]:
        return int(info["content_size"])
    has_size = data[4] & _LZ4_HAS_SIZE
    at = _LZ4_SIZED_HEADER_BYTES if has_size else _LZ4_HEADER_BYTES
    return None if any(data[at : at + 4]) else 0


def _claim_of_zstd(data: memoryview) -> int | None:
    """A frame may say its size."""
    import zstandard

    claimed_bytes = zstandard.frame_content_size(data[:_ZSTD_MOST_HEADER_BYTES])
    return None if claimed_bytes < 0 else int(claimed_bytes)


def _unknown(codec: int) -> InvalidRecords:
    return InvalidRecords(ErrorCode.CORRUPT_MESSAGE, f"unknown compression codec {codec}")


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"the records decompress to more than {max_bytes} bytes")


def _cut_short(what: str) -> InvalidRecords:
    return InvalidRecords(ErrorCode.CORRUPT_MESSAGE, f"the {what} is cut short")


def _pieces(data: memoryview) -> Iterator[bytes]:
    for start in range(0, len(data), STRETCH_BYTES):
        yield bytes(data[start : start + STRETCH_BYTES])


def _compress_none(data: Buffer, level: int) -> bytes:
    return bytes(data)


def _stream_none(pieces: Iterable[Buffer], level: int) -> Iterator[bytes]:
    return map(bytes, pieces)


def _decompress_none(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    return _pieces(data)


def _compress_gzip(data: Buffer, level: int) -> bytes:
    return b"".join(_stream_gzip((data,), level))


def _stream_gzip(pieces: Iterable[Buffer], level: int) -> Iterator[bytes]:
    import zlib

    compressor = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def _decompress_gzip(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    import zlib

    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    position = 0
    while True:
        step = data[position : position + _GZIP_STEP_BYTES]
        piece = decompressor.decompress(step, STRETCH_BYTES)
        yield piece
        left = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
        position += len(step) - len(left)
        if decompressor.eof:
            if data[position : position + len(_GZIP_MAGIC)] != _GZIP_MAGIC:
                return
            decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)  # the next member
        elif not step and not piece:
            raise _cut_short("gzip stream")


def _compress_snappy(data: Buffer, level: int) -> bytes:
    return b"".join(_stream_snappy((data,), level))


def _stream_snappy(pieces: Iterable[Buffer], level: int) -> Iterator[bytes]:
    import cramjam

    yield _XERIAL_MAGIC + _XERIAL_VERSIONS
    for block in _blocks(pieces):
        raw_block = bytes(cramjam.snappy.compress_raw(block))
        yield _INT32.pack(len(raw_block)) + raw_block


def _blocks(pieces: Iterable[Buffer]) -> Iterator[bytes]:
    """The same bytes in blocks of equal size, except the last one."""
    rest = b""
    for piece in pieces:
        data = rest + bytes(piece) if rest else bytes(piece)
        whole = len(data) - len(data) % _XERIAL_BLOCK_BYTES
        for start in range(0, whole, _XERIAL_BLOCK_BYTES):
            yield data[start : start + _XERIAL_BLOCK_BYTES]
        rest = data[whole:]
    if rest:
        yield rest


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    """The raw blocks of a framed stream; without framing, all bytes as one block."""
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield view
        return
    if len(view) < _XERIAL_HEADER_BYTES:
        raise _cut_short("header of the snappy stream")
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


def _decompress_snappy(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    import cramjam

    left = max_bytes
    for block in _xerial_blocks(data):
        # A raw block starts with its decompressed size, so the check needs no large buffer.
        size_bytes = cramjam.snappy.decompress_raw_len(block)
        # First of all: what can't be is damage, and no matter of limits, beyond which some trust.
        if size_bytes > len(block) * MOST_FROM_A_BYTE[Compression.SNAPPY]:
            raise InvalidRecords(
                ErrorCode.CORRUPT_MESSAGE,
                f"a snappy block of {len(block)} bytes cannot hold {size_bytes}",
            )
        if size_bytes > left:
            raise _too_large(max_bytes)
        left -= size_bytes
        if not size_bytes:
            yield b""  # so that blocks of nothing count as pieces, too
        yield from _pieces(memoryview(cramjam.snappy.decompress_raw(block)))


def _compress_lz4(data: Buffer, level: int) -> bytes:
    import lz4.frame

    return bytes(lz4.frame.compress(data, compression_level=level, block_linked=False))


def _stream_lz4(pieces: Iterable[Buffer], level: int) -> Iterator[bytes]:
    import lz4.frame

    compressor = lz4.frame.LZ4FrameCompressor(compression_level=level, block_linked=False)
    yield compressor.begin()
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def _decompress_lz4(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    for start in range(0, len(data), _LZ4_STEP_BYTES):
        step = bytes(data[start : start + _LZ4_STEP_BYTES])
        yield decompressor.decompress(step, max_length=STRETCH_BYTES)
        while not (decompressor.eof or decompressor.needs_input):
            yield decompressor.decompress(b"", max_length=STRETCH_BYTES)
        if decompressor.eof:
            return
    raise _cut_short("lz4 frame")


def _compress_zstd(data: Buffer, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(data)


def _stream_zstd(pieces: Iterable[Buffer], level: int) -> Iterator[bytes]:
    import zstandard

    compressor = zstandard.ZstdCompressor(level=level).compressobj()
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def _decompress_zstd(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    """All frames, one after the other, as Kafka reads them. (Of lz4, Kafka reads only one frame.)

    Without a frame there is no data.
    """
    import zstandard

    limited = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
    position = 0
    while position < len(data):
        magic = bytes(data[position : position + len(_ZSTD_MAGIC)])
        if magic[1:] == _ZSTD_SKIPPABLE and magic[0] & 0xF0 == 0x50:
            size = data[position + 4 : position + _ZSTD_SKIPPABLE_HEADER_BYTES]
            position += _ZSTD_SKIPPABLE_HEADER_BYTES + int.from_bytes(size, "little")
            if position > len(data):
                raise _cut_short("skippable frame")
            yield b""
        elif magic == _ZSTD_MAGIC:
            header_bytes = zstandard.frame_header_size(data[position:])
            frame = _zstd_frame(limited.decompressobj(), data, position, header_bytes)
            position = yield from frame
        else:
            raise InvalidRecords(ErrorCode.CORRUPT_MESSAGE, "the records are not a zstd frame")


def _zstd_frame(
    decompressor: Any, data: memoryview, position: int, header_bytes: int
) -> Generator[bytes, None, int]:
    """Decompress the frame at ``position``, block by block; returns the position after it."""
    end = position + header_bytes
    is_last = False
    while not decompressor.eof:
        if position >= len(data):
            raise _cut_short("zstd frame")
        yield decompressor.decompress(data[position:end])
        position = end
        if is_last:
            end = position + _ZSTD_CHECKSUM_BYTES  # without a checksum, the frame has ended
            continue
        header = int.from_bytes(data[position : position + _ZSTD_BLOCK_HEADER_BYTES], "little")
        is_last = bool(header & 1)
        repeats = header >> 1 & 3 == _ZSTD_REPEATED_BYTE
        end = position + _ZSTD_BLOCK_HEADER_BYTES + (1 if repeats else header >> 3)
    return position


_COMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Compression.NONE: _compress_none,
    Compression.GZIP: _compress_gzip,
    Compression.SNAPPY: _compress_snappy,
    Compression.LZ4: _compress_lz4,
    Compression.ZSTD: _compress_zstd,
}

_STREAM_COMPRESSORS: dict[int, Callable[[Iterable[Buffer], int], Iterator[bytes]]] = {
    Compression.NONE: _stream_none,
    Compression.GZIP: _stream_gzip,
    Compression.SNAPPY: _stream_snappy,
    Compression.LZ4: _stream_lz4,
    Compression.ZSTD: _stream_zstd,
}

_CLAIMS: dict[int, Callable[[memoryview], int | None]] = {
    Compression.GZIP: _claim_of_gzip,
    Compression.SNAPPY: _claim_of_snappy,
    Compression.LZ4: _claim_of_lz4,
    Compression.ZSTD: _claim_of_zstd,
}
"""How many bytes the data claims to become; -1 for a size that is impossible, None for no claim."""

_DECOMPRESSORS: dict[int, Callable[[memoryview, int], Iterator[bytes]]] = {
    Compression.NONE: _decompress_none,
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
