"""Where records lie in a batch, without building them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.record.batch import HEADER_BYTES, InvalidRecords, RecordBatch
from kwire.record.compression import decompress
from kwire.record.record_index import RecordIndex
from kwire.record.records import BatchBuilder, Record, build_batch, records
from kwire.record.streaming_decompressor import Limits, RecordTooLarge
from kwire.record.varint import read_varint

small_bytes = st.one_of(st.none(), st.binary(max_size=200))
items = st.lists(
    st.tuples(
        st.integers(-1, 2**41),
        small_bytes,
        small_bytes,
        st.lists(st.tuples(st.text(max_size=5), small_bytes), max_size=2).map(tuple),
    ),
    max_size=20,
)


def batch_of(written, compression=0, before=b"", gap=1):
    """A batch behind other bytes, its offsets so far apart."""
    found = build_batch(
        (Record(7 + offset * gap, *item) for offset, item in enumerate(written)),
        base_offset=7,
        compression=compression,
    )
    return RecordBatch(bytes(before + found), len(before))


@given(items, st.sampled_from([0, 2]), st.binary(max_size=3), st.sampled_from([1, 3, 70, 9000]))
def test_spans_say_what_the_records_do(written, compression, before, gap):
    """Offsets, times, keys, nulls; and the bytes of all of them are the records."""
    batch = batch_of(written, compression, before, gap)
    index = RecordIndex(batch)
    found = list(records(batch))
    assert len(index) == len(found)
    assert index.keys == [r.key for r in found]
    assert list(index.offsets(7)) == [r.offset for r in found]
    assert index.deletes == [place for place, r in enumerate(found) if r.value is None]
    places = range(len(found))
    times = [batch.base_timestamp + index.timestamp_delta(place) for place in places]
    assert times == [r.timestamp for r in found]
    assert index.is_ascending
    assert index.copied(places) == bytes(decompress(batch.compression, batch.payload))


@pytest.mark.parametrize("size_bytes", [0, 1, 50, 58, 63, 64, 100, 8000, 8185, 9000, 1_100_000])
def test_lengths_of_one_byte_two_and_more(size_bytes):
    """As numbers grow they take more bytes: of keys, of values, of both."""
    content = bytes(size_bytes)
    written = [(0, content, b"v", ()), (0, b"k", content, ()), (0, content, content, ())]
    batch = batch_of(written)
    assert RecordIndex(batch).keys == [record.key for record in records(batch)]


@pytest.mark.parametrize("size_bytes", [50, 100, 9000])
def test_a_record_may_decompress_to_so_many_bytes(size_bytes):
    """Counted without its own length; one that isn't compressed may be larger."""
    written = [(0, b"", b"", ()), (0, b"", bytes(size_bytes), ())]
    record_bytes, _ = read_varint(batch_of(written[1:]).payload, 0)
    within = Limits(max_record_bytes=record_bytes)
    beyond = Limits(max_record_bytes=record_bytes - 1)
    assert len(RecordIndex(batch_of(written, compression=2), within)) == 2
    with pytest.raises(RecordTooLarge):
        RecordIndex(batch_of(written, compression=2), beyond)
    assert len(RecordIndex(batch_of(written), beyond)) == 2


@given(items, st.data())
def test_of_some_records_the_bytes_are_copied(written, data):
    """A batch of them alone has the same records."""
    batch = batch_of(written)
    places = sorted(data.draw(st.sets(st.integers(0, len(written) - 1)))) if written else []
    found = list(records(batch))
    kept = with_records(batch, RecordIndex(batch).copied(places), len(places))
    assert list(records(kept)) == [found[place] for place in places]


@given(items, st.integers(-(2**41), 2**41))
def test_a_shifted_record_differs_in_its_timestamp_alone(written, shift_ms):
    """The delta is written anew, the rest is copied."""
    batch = batch_of(written)
    body = RecordIndex(batch).shifted(range(len(written)), shift_ms)
    shifted = with_records(batch, body, len(written), batch.base_timestamp - shift_ms)
    assert list(records(shifted)) == list(records(batch))


def with_records(batch, body, count, base_timestamp=None):
    """A batch at the same offset with other records."""
    builder = BatchBuilder(batch.base_offset)
    builder.add(batch.base_timestamp if base_timestamp is None else base_timestamp, b"", b"")
    made = bytearray(builder.build())[:HEADER_BYTES] + body
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    made[23:27] = batch.last_offset_delta.to_bytes(4, "big", signed=True)
    made[57:61] = count.to_bytes(4, "big")
    return RecordBatch(bytes(made))


@pytest.mark.parametrize(
    ("deltas", "last", "wanted"),
    [
        ([0, 1, 2], 2, True),
        ([0, 5, 6], 9, True),
        ([1, 2], 2, True),
        ([], 0, True),
        ([0, 2, 1, 3], 3, False),
        ([0, 1, 1], 2, False),
        ([-1, 0], 1, False),
        ([0, 1, 2], 1, False),
    ],
)
def test_offsets_that_do_not_ascend_are_told(deltas, last, wanted):
    """Kafka takes them as they are; so has whoever goes by them."""
    builder = BatchBuilder(100)
    for delta in deltas:
        builder.add(0, b"k", b"v", offset=100 + delta)
    batch = RecordBatch(bytes(builder.build(last_offset_delta=last)))
    index = RecordIndex(batch)
    assert index.is_ascending is wanted
    assert list(index.offsets(100)) == [100 + delta for delta in deltas]


@pytest.mark.parametrize(
    ("damage", "count"),
    [
        (lambda b: b[:-1], 2),
        (lambda b: b + b"\x00", 2),
        (lambda b: b, 3),
        (lambda b: b, 1),
        (lambda b: b"\x0f" + b[1:], 2),  # a negative length
        (lambda b: b"\x80\x80\x80" + b[1:], 2),
        (lambda b: b[:4] + b"\x7e" + b[5:], 2),  # a key that is too long
    ],
)
def test_what_is_not_so_many_records_is_refused(damage, count):
    """Cut short, too long, too many, too few, lengths that don't fit; whatever follows."""
    batch = batch_of([(0, b"k", b"v", ()), (0, b"k", b"v", ())])
    damaged = with_records(batch, damage(batch.payload.tobytes()), count)
    for behind in (b"", bytes(100), b"\xff" * 100):
        with pytest.raises(InvalidRecords):
            RecordIndex(RecordBatch(bytes(damaged.buffer) + behind))
