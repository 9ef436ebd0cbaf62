"""Where records lie in a payload, without building them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.record.batch import InvalidRecords, RecordBatch
from kwire.record.records import BatchBuilder, Record, build_batch, records
from kwire.record.spans import append_shifted, payload, record_spans

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


@given(items, st.sampled_from([0, 2]))
def test_spans_say_what_the_records_do(written, compression):
    """Keys, nulls, deltas; and the bytes of all spans are the payload."""
    batch = RecordBatch(
        build_batch(
            (Record(offset * 3, *item) for offset, item in enumerate(written)),
            compression=compression,
        )
    )
    content = payload(batch)
    spans = record_spans(content, batch.records_count)
    assert [
        (s.offset_delta, batch.base_timestamp + s.timestamp_delta, s.key, s.has_value)
        for s in spans
    ] == [(r.offset, r.timestamp, r.key, r.value is not None) for r in records(batch)]
    assert b"".join(content[s.start : s.end] for s in spans) == content


@given(items, st.integers(-(2**41), 2**41))
def test_a_shifted_record_differs_in_its_timestamp_alone(written, shift_ms):
    """The delta is written anew, the rest is copied."""
    batch = RecordBatch(build_batch(Record(o, *item) for o, item in enumerate(written)))
    content = payload(batch)
    out = bytearray()
    for span in record_spans(content, batch.records_count):
        append_shifted(out, content, span, shift_ms)
    builder = BatchBuilder()
    builder.add(batch.base_timestamp - shift_ms, b"", b"")
    shifted = bytearray(builder.build())[:61] + out
    shifted[8:12] = (len(shifted) - 12).to_bytes(4, "big")
    shifted[23:27] = batch.last_offset_delta.to_bytes(4, "big", signed=True)
    shifted[57:61] = batch.records_count.to_bytes(4, "big")
    assert list(records(RecordBatch(shifted))) == list(records(batch))


@pytest.mark.parametrize(
    ("damage", "count"),
    [(lambda b: b[:-1], 2), (lambda b: b + b"\x00", 2), (lambda b: b, 3), (lambda b: b, 1)],
)
def test_what_is_not_so_many_records_is_refused(damage, count):
    """Cut short, too long, too many, too few."""
    batch = RecordBatch(build_batch([Record(0, 0, b"k", b"v"), Record(1, 0, b"k", b"v")]))
    with pytest.raises(InvalidRecords):
        record_spans(damage(payload(batch)), count)
