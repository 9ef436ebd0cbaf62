"""Codecs: what goes in comes out, other implementations agree, and nothing grows without bound."""

import gzip
import subprocess
import sys
import time
import tracemalloc
from functools import cache
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec as other

from kwire.errors import ErrorCode, KafkaError
from kwire.record.batch import InvalidRecords, TooLarge
from kwire.record.compression import (
    MOST_FROM_A_BYTE,
    Compression,
    compress,
    compressed,
    decompress,
    decompressed,
    has_possible_claim,
)

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b"".join(b"flight %d of carrier %d;" % (n, n % 16) for n in range(20_000))

other_encode = {
    Compression.GZIP: other.gzip_encode,
    Compression.SNAPPY: other.snappy_encode,
    Compression.LZ4: other.lz4_encode,
    Compression.ZSTD: other.zstd_encode,
}
other_decode = {
    Compression.GZIP: other.gzip_decode,
    Compression.SNAPPY: other.snappy_decode,
    Compression.LZ4: other.lz4_decode,
    Compression.ZSTD: other.zstd_decode,
}


@cache
def bombs() -> dict[Compression, bytes]:
    """64 MB of zeros in every codec, as large blocks as it allows."""
    zeros = bytes(64_000_000)
    return {
        Compression.GZIP: gzip.compress(zeros, mtime=0),
        Compression.SNAPPY: bytes(cramjam.snappy.compress_raw(zeros)),
        Compression.LZ4: lz4.frame.compress(zeros, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        Compression.ZSTD: zstandard.ZstdCompressor().compress(zeros),
    }


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(100_000)])
def test_what_is_compressed_comes_back(codec: Compression, data: bytes) -> None:
    """From nothing at all to several blocks."""
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_reads_what_is_written_and_the_reverse(codec: Compression) -> None:
    """An independent client's codecs agree in both directions."""
    assert bytes(other_decode[codec](compress(codec, TEXT))) == TEXT
    assert decompress(codec, bytes(other_encode[codec](TEXT))) == TEXT


def test_lz4_blocks_are_independent() -> None:
    """Kafka's Java reader refuses frames whose blocks refer to each other."""
    info = lz4.frame.get_frame_info(compress(Compression.LZ4, TEXT))
    assert info["block_linked"] is False
    assert info["block_checksum"] is False


def test_snappy_is_written_in_the_framing_of_java_clients() -> None:
    """The xerial header, then blocks of at most 32 KiB."""
    data = compress(Compression.SNAPPY, TEXT)
    assert data[:16] == b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
    first = int.from_bytes(data[16:20])
    assert len(bytes(cramjam.snappy.decompress_raw(data[20 : 20 + first]))) == 32 * 1024


def test_a_raw_snappy_block_is_read() -> None:
    """Some clients leave the framing out."""
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_zstd_needs_no_content_size() -> None:
    """Streaming writers don't know it when they write the frame's header."""
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    stream = compressor.compressobj()
    assert decompress(Compression.ZSTD, stream.compress(TEXT) + stream.flush()) == TEXT


def test_gzip_members_follow_each_other_as_java_reads_them() -> None:
    """All members count, and so does their sum for the bound."""
    two = gzip.compress(b"one") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, two) == b"onetwo"
    with pytest.raises(KafkaError, match="more than 5 bytes"):
        decompress(Compression.GZIP, two, 5)


def test_many_gzip_members_take_no_more_than_linear_time() -> None:
    """A megabyte of empty members is read in moderate time."""
    data = gzip.compress(b"", mtime=0) * 50_000
    started = time.perf_counter()
    assert decompress(Compression.GZIP, data) == b""
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_is_exact(codec: Compression) -> None:
    """As many bytes as are allowed pass, one more does not."""
    data = compress(codec, TEXT)
    assert len(decompress(codec, data, len(TEXT))) == len(TEXT)
    with pytest.raises(KafkaError, match="decompress to more than") as caught:
        decompress(codec, data, len(TEXT) - 1)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_little_memory(codec: Compression) -> None:
    """What may not come out is not made first."""
    bomb = bombs()[codec]
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError, match="decompress to more than 1000000 bytes"):
            decompress(codec, bomb, 1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_comes_in_small_stretches(codec: Compression) -> None:
    """However much a few bytes become, no more than a block of the codec comes at a time."""
    bomb = bombs()[codec]
    sizes = [len(stretch) for stretch in decompressed(codec, bomb)]
    assert sum(sizes) == 64_000_000
    assert max(sizes) <= 128 * 1024


MEASURE = """
import sys
from pathlib import Path
from kwire.record.batch import TooLarge
from kwire.record.compression import decompressed

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

codec, small, bomb, max_bytes = int(sys.argv[1]), *map(Path, sys.argv[2:4]), int(sys.argv[4])
for stretch in decompressed(codec, small.read_bytes()):
    pass  # the library is loaded
data = bomb.read_bytes()
before = peak()
try:
    for stretch in decompressed(codec, data, max_bytes):
        pass
except TooLarge:
    pass
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells no peak of the memory")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("max_bytes", [1_000_000, 100_000_000])
def test_a_bomb_takes_little_memory_of_the_process(
    codec: Compression, max_bytes: int, tmp_path: Path
) -> None:
    """Neither Python nor the libraries hold more than blocks, refused or read to the end."""
    bomb = bombs()[codec]
    if codec is Compression.SNAPPY:
        bomb = compress(codec, bytes(64_000_000))  # one raw block is decompressed as a whole
    small = tmp_path / "small"
    small.write_bytes(compress(codec, b"x"))
    (tmp_path / "bomb").write_bytes(bomb)
    command = [sys.executable, "-c", MEASURE, str(int(codec)), str(small), str(tmp_path / "bomb")]
    grown_kb = int(
        subprocess.check_output([*command, str(max_bytes)], cwd=Path(__file__).parents[2])
    )
    assert grown_kb < 12_000


def test_a_snappy_block_that_cannot_hold_what_it_says_is_corrupt() -> None:
    """Nothing is made for it: a compressed byte becomes less than 22."""
    lie = b"\x80\x80\x80\x30" + bytes(cramjam.snappy.compress_raw(b"x"))[1:]
    assert cramjam.snappy.decompress_raw_len(lie) == 96 << 20
    with pytest.raises(KafkaError, match="cannot hold"):
        decompress(Compression.SNAPPY, lie)


def test_a_zstd_window_beyond_the_limit_is_corrupt() -> None:
    """A frame says how much its reader has to hold; level 22 says 128 MiB, and no level more."""
    for log, is_taken in ((27, True), (28, False)):
        parameters = zstandard.ZstdCompressionParameters(window_log=log, write_content_size=False)
        stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        data = stream.compress(TEXT) + stream.flush()
        if is_taken:
            assert decompress(Compression.ZSTD, data) == TEXT
        else:
            with pytest.raises(KafkaError, match="valid zstd"):
                decompress(Compression.ZSTD, data)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(3_000_000)])
def test_what_is_compressed_in_stretches_comes_back(codec: Compression, data: bytes) -> None:
    """Stretches of any size; the blocks of snappy are as large as Java's all the same."""
    stretches = [data[:1], data[1:1000], data[1000:100_000], b"", data[100_000:]]
    assert decompress(codec, b"".join(compressed(codec, stretches, None))) == data
    if data:  # python-snappy knows no stream of no block
        assert bytes(other_decode[codec](b"".join(compressed(codec, stretches, None)))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_no_codec_makes_more_of_a_byte_than_is_known(codec: Compression) -> None:
    """The header of a batch is held to it."""
    assert 64_000_000 / len(bombs()[codec]) < MOST_FROM_A_BYTE[codec]


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_cut_short_is_corrupt(codec: Compression) -> None:
    """Whichever byte it ends at."""
    data = compress(codec, TEXT[:500])
    for size in range(len(data)):
        if codec == Compression.SNAPPY and size == 16:
            continue  # a framed stream without blocks is whole
        if codec == Compression.ZSTD and size == 0:
            continue  # no frame holds nothing, as Kafka reads it
        with pytest.raises(KafkaError) as caught:
            decompress(codec, data[:size])
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def size_or_corrupt(codec: Compression, data: bytes | bytearray) -> int:
    """How many bytes came out, 0 where the data was found corrupt."""
    try:
        return len(decompress(codec, data, 10_000))
    except KafkaError:
        return 0


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_garbage_raises_nothing_but_kafka_errors(codec: Compression, data: bytes) -> None:
    """Random bytes either decompress within the bound or are corrupt."""
    assert size_or_corrupt(codec, data) <= 10_000


@given(st.sampled_from(CODECS), st.integers(0), st.integers(1, 255))
def test_a_changed_byte_raises_nothing_but_kafka_errors(
    codec: Compression, place: int, change: int
) -> None:
    """One changed byte of a good stream is read within the bound or found corrupt."""
    data = bytearray(compress(codec, TEXT[:2000]))
    data[place % len(data)] ^= change
    assert size_or_corrupt(codec, data) <= 10_000


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist_are_refused(codec: int) -> None:
    """In both directions."""
    for function in (compress, decompress):
        with pytest.raises(KafkaError, match=f"unknown compression codec {codec}"):
            function(codec, b"x")


SKIPPABLE = b"\x5f\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"


@pytest.mark.parametrize(
    "between", [b"", SKIPPABLE, zstandard.compress(b"")], ids=["nothing", "skippable", "empty"]
)
def test_all_frames_of_zstd_are_read(between: bytes) -> None:
    """Apache Kafka 4.3.1 reads them too, whatever is between them."""
    first, second = zstandard.compress(TEXT), zstandard.compress(b"second")
    data = between + first + between + second + between
    assert bytes(decompress(Compression.ZSTD, data)) == TEXT + b"second"


def test_only_the_first_frame_of_lz4_is_read() -> None:
    """As Apache Kafka 4.3.1 does."""
    data = lz4.frame.compress(TEXT) + lz4.frame.compress(b"second")
    assert bytes(decompress(Compression.LZ4, data)) == TEXT


def test_what_follows_the_frames_of_zstd_must_be_a_frame() -> None:
    """Apache Kafka answers UNKNOWN_SERVER_ERROR for such a batch."""
    for junk in (b"junk", b"\x5f\x2a\x4d\x19" + bytes(4), b"\x6f\x2a\x4d\x18" + bytes(4)):
        with pytest.raises(KafkaError, match="not a zstd frame"):
            decompress(Compression.ZSTD, zstandard.compress(TEXT) + junk)
    with pytest.raises(KafkaError, match="cut short"):
        decompress(Compression.ZSTD, zstandard.compress(TEXT) + zstandard.compress(TEXT)[:-1])


@pytest.mark.parametrize(
    ("codec", "nothing"),
    [
        (Compression.GZIP, gzip.compress(b"", mtime=0)),
        (Compression.ZSTD, SKIPPABLE),
        (Compression.ZSTD, zstandard.compress(b"")),
        (Compression.SNAPPY, b"\0\0\0\1\0"),
    ],
    ids=["gzip", "skippable", "zstd", "snappy"],
)
def test_many_frames_of_nothing_are_too_much(codec: Compression, nothing: bytes) -> None:
    """They decompress to no bytes, but each takes its time."""
    data = compress(codec, b"data") + nothing * 1000
    assert decompress(codec, data, 4_000_000) == b"data"
    with pytest.raises(TooLarge, match="more than 128 frames or blocks"):
        decompress(codec, data, 65_536)


@pytest.mark.parametrize("missing", [1, len(SKIPPABLE) - 4])
def test_a_frame_without_data_that_is_cut_short_is_refused(missing: int) -> None:
    """Like every other frame that is cut short."""
    data = compress(Compression.ZSTD, b"data") + SKIPPABLE[:-missing]
    with pytest.raises(InvalidRecords, match="skippable frame is cut short"):
        decompress(Compression.ZSTD, data)


@given(st.sampled_from(CODECS), st.lists(st.binary(max_size=200), max_size=20), st.booleans())
def test_what_a_codec_writes_claims_nothing_impossible(
    codec: Compression, parts: list[bytes], in_pieces: bool
) -> None:
    """So the batches of well-behaved clients are not opened for their claims."""
    data = b"".join(parts) * 100
    written = b"".join(compressed(codec, parts * 100, None)) if in_pieces else compress(codec, data)
    assert has_possible_claim(codec, memoryview(written), len(data)) or not data


def test_a_claim_of_too_little_or_too_much_is_seen() -> None:
    """Data of one block or frame says what it becomes, unless zstd or lz4 write it in pieces."""
    for codec in CODECS:
        written = memoryview(compress(codec, b"0123456789" * 50))
        assert has_possible_claim(codec, written, 500)
        assert not has_possible_claim(codec, written, 501)
        assert not has_possible_claim(codec, memoryview(b""), 7)
