"""The fast look at a batch lets nothing pass that the slow one refuses or changes."""

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import KafkaError
from kwire.log import plain_batch
from kwire.log.log_config import LogConfig
from kwire.log.validation import checked_batch, client_batch
from kwire.record.compression import Compression
from kwire.record.records import BatchBuilder, ProducerState

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig()


def built(count=1, *, compression=0, producer=None, key=b"k", value=b"v", headers=(), step_ms=0):
    """A batch of records."""
    builder = BatchBuilder()
    for place in range(count):
        builder.add(NOW_MS + place * step_ms, key, value, tuple(headers))
    state = ProducerState(*producer) if producer else ProducerState()
    return bytearray(builder.build(compression=compression, producer=state))


def with_crc(data):
    """The same bytes with the checksum that fits them."""
    if len(data) > 21:
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return data


def is_plain(data, config=CONFIG):
    """Whether it is plain; then it is what the whole check lets pass, unchanged."""
    before = bytes(data)
    try:
        found = client_batch(memoryview(data))
    except KafkaError:
        return False
    if not plain_batch.is_plain(found, config, NOW_MS):
        assert bytes(data) == before
        return False
    twin = bytearray(before)
    checked = checked_batch(client_batch(memoryview(twin)), config, NOW_MS)
    assert bytes(checked.batch.data) == before[: found.size_bytes] == bytes(found.data)
    assert checked.log_append_time_ms == -1
    return True


@pytest.mark.parametrize(
    "data",
    [
        built(),
        built(value=None),
        built(key=None, value=b"x" * 300),
        built(key=b"y" * 100, value=b"x" * 70_000),
        built(producer=(7, 0, 5)),
        built(2),
        built(8, value=b"x" * 300, step_ms=1000),
        built(9),
        built(100, step_ms=10),
        built() + b"more",  # what is no batch after it is dropped
        built(50, compression=Compression.LZ4),
        built(50, compression=Compression.ZSTD, producer=(7, 0, 5)),
    ],
)
def test_common_batches_are_plain(data):
    assert is_plain(data)


@pytest.mark.parametrize(
    "data",
    [
        built(2, compression=Compression.LZ4),
        built(headers=[("a", b"b")]),
        built(compression=Compression.GZIP),
        built(value=b"x" * CONFIG.max_message_bytes),
        built()[:-1],
        bytearray(),
    ],
)
def test_others_are_left_to_the_twin(data):
    assert not is_plain(data)


@pytest.mark.parametrize(
    "setting",
    [
        {"compact": True},
        {"log_append_time": True},
        {"compression": Compression.GZIP},
        {"timestamp_before_max_ms": 1000},
        {"flush_messages": 1},
        {"max_message_bytes": 60},
        {"segment_bytes": 60},
        {"timestamp_after_max_ms": -1},
    ],
)
def test_topics_that_want_more_are_left_to_the_twin(setting):
    assert not is_plain(built(), LogConfig(**setting))


def with_header(data, attributes=None, count=None):
    """The same records below another header, with a length and a checksum that fit."""
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    if attributes is not None:
        data[21:23] = attributes.to_bytes(2, "big")
    if count is not None:
        data[23:27] = (count - 1).to_bytes(4, "big", signed=True)
        data[57:61] = count.to_bytes(4, "big", signed=True)
    return with_crc(data)


@pytest.mark.parametrize(
    "data",
    [
        with_crc(built() + b"more"),
        with_crc(built(20) + b"more"),
        with_header(built() + b"more"),
        with_header(built(20), count=1000),
        with_header(built()[:61], count=0),
        with_header(built()[:61], count=-1),
        *[
            with_header(built(count), attributes=attributes)
            for count in (2, 20)
            for attributes in (5, 6, 7, 8, 16, 32, 64, 128, 0x8000, 0x8001)
        ],
    ],
)
def test_what_a_fitting_checksum_hides_is_left_to_the_twin(data):
    assert not is_plain(data)


@pytest.mark.parametrize("name", ["max_message_bytes", "segment_bytes"])
@pytest.mark.parametrize("count", [1, 20])
def test_a_batch_may_be_as_large_as_the_topic_allows(name, count):
    data = built(count)
    assert is_plain(data, LogConfig(**{name: len(data)}))
    assert not is_plain(data, LogConfig(**{name: len(data) - 1}))


@given(st.data())
def test_whatever_is_changed_the_fast_look_agrees_with_the_slow_one(data):
    base = data.draw(
        st.sampled_from(
            [built(), built(3, step_ms=99), built(9), built(20, compression=Compression.LZ4)]
        )
    )
    changed = bytearray(base)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    is_plain(with_crc(changed) if data.draw(st.booleans()) else changed)


@pytest.mark.parametrize("place", range(8, len(built(2, step_ms=1))))
def test_each_byte_of_a_small_batch_counts(place):
    for value in (0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, None):
        changed = built(2, step_ms=1)
        changed[place] = changed[place] ^ 1 if value is None else value
        is_plain(with_crc(changed))
