"""Every codec gives back what it took, within a bound, and refuses what is broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import ErrorCode
from kwire.record.batch import InvalidRecords
from kwire.record.compression import Compression, compress, decompress

CODECS = [codec for codec in Compression if codec]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@given(data=st.binary(max_size=5000), repeat=st.integers(1, 50))
def test_round_trip(codec: Compression, data: bytes, repeat: int) -> None:
    """Whatever goes in comes out, as long as it fits the bound exactly."""
    content = data * repeat
    packed = compress(codec, content)
    assert bytes(decompress(codec, memoryview(packed), max(1, len(content)))) == content


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_bomb_is_refused(codec: Compression) -> None:
    """More than the bound is an error, however small it was packed."""
    packed = compress(codec, bytes(5_000_000))
    with pytest.raises(InvalidRecords) as caught:
        decompress(codec, packed, 1_000_000)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@given(data=st.binary(max_size=300))
def test_garbage_is_refused(codec: Compression, data: bytes) -> None:
    """Bytes that are no compressed data raise KafkaError or decompress to something small."""
    try:
        found = decompress(codec, data, 10_000)
    except InvalidRecords:
        return
    assert len(found) <= 10_000


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_cut_stream_is_refused(codec: Compression) -> None:
    """The last byte counts."""
    packed = compress(codec, bytes(range(256)) * 20)
    with pytest.raises(InvalidRecords):
        decompress(codec, packed[:-1], 1_000_000)


def test_snappy_with_and_without_framing() -> None:
    """Java's xerial framing is written; raw blocks of other clients are read as well."""
    import cramjam

    content = b"kwire " * 20_000
    framed = compress(Compression.SNAPPY, content)
    assert framed.startswith(b"\x82SNAPPY\x00")
    raw = bytes(cramjam.snappy.compress_raw(content))
    assert bytes(decompress(Compression.SNAPPY, raw)) == content
