"""Batches that are built are read back, and broken ones raise InvalidRecords and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import ErrorCode, KafkaError
from kwire.record.batch import (
    MAX_SEQUENCE,
    InvalidRecords,
    RecordBatch,
    assign_offsets,
    batches,
    complete_batches,
    set_log_append_time,
)
from kwire.record.compression import Compression
from kwire.record.control import ControlType, control_type, end_transaction_marker
from kwire.record.records import ProducerState, Record, build_batch, records, verify_records

NOW_MS = 1_700_000_000_000

optional_bytes = st.none() | st.binary(max_size=50)
record = st.tuples(
    st.integers(-10_000, 10_000),
    optional_bytes,
    optional_bytes,
    st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=3),
)


def items(
    rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> list[Record]:
    """Records at ascending offsets."""
    return [
        Record(offset, NOW_MS + delta, key, value, tuple(headers))
        for offset, (delta, key, value, headers) in enumerate(rows)
    ]


@given(rows=st.lists(record, min_size=1, max_size=20), codec=st.sampled_from(Compression))
def test_round_trip(rows: list[object], codec: Compression) -> None:
    """Every record comes back from every codec."""
    wanted = items(rows)  # type: ignore[arg-type]
    batch = RecordBatch(build_batch(wanted, compression=codec))
    batch.verify_crc()
    verify_records(batch)
    assert list(records(batch)) == wanted
    assert (batch.base_offset, batch.next_offset) == (0, len(wanted))
    assert batch.max_timestamp == max(item.timestamp for item in wanted)


@given(data=st.data())
def test_mutated_batches_raise_only_kafka_errors(data: st.DataObject) -> None:
    """Any byte may be wrong: a KafkaError, or records, but no other exception."""
    built = build_batch(items([(n, b"k", b"v" * n, [("h", b"x")]) for n in range(5)]))
    for _ in range(data.draw(st.integers(1, 4))):
        built[data.draw(st.integers(0, len(built) - 1))] = data.draw(st.integers(0, 255))
    try:
        for batch in batches(built):
            list(records(batch, 10_000))
            verify_records(batch, 10_000)
    except KafkaError:
        return


def test_offsets_are_assigned_without_touching_the_checksum() -> None:
    """Base offset and leader epoch lie outside it."""
    built = build_batch(items([(0, b"k", b"v", [])] * 3))
    assign_offsets(built, 0, 1000, 7)
    batch = RecordBatch(built)
    batch.verify_crc()
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (1000, 1002, 7)


def test_log_append_time_changes_the_checksum() -> None:
    """Every record then has the broker's time."""
    built = build_batch(items([(n, None, b"v", []) for n in range(3)]))
    set_log_append_time(built, 0, 42)
    batch = RecordBatch(built)
    batch.verify_crc()
    assert {item.timestamp for item in records(batch)} == {42}


def test_sequences_wrap() -> None:
    """After 2**31 - 1 comes 0."""
    producer = ProducerState(1, 0, MAX_SEQUENCE - 1)
    batch = RecordBatch(build_batch(items([(0, None, b"v", [])] * 4), producer=producer))
    assert batch.last_sequence == 1


@pytest.mark.parametrize("kind", ControlType)
def test_markers(kind: ControlType) -> None:
    """A marker says how a transaction ended."""
    marker = end_transaction_marker(
        kind, producer_id=5, producer_epoch=1, coordinator_epoch=2, timestamp=NOW_MS
    )
    batch = RecordBatch(marker)
    assert (batch.is_control, batch.is_transactional) == (True, True)
    assert control_type(batch) == kind


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_named(magic: int) -> None:
    """Magics 0 and 1 are gone, and get a code of their own."""
    with pytest.raises(InvalidRecords) as caught:
        RecordBatch(bytes(16) + bytes([magic]) + bytes(50))
    assert caught.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_a_fetch_may_end_in_the_middle_of_a_batch() -> None:
    """What is whole is given, the rest is left out."""
    built = bytes(build_batch(items([(0, None, b"v", [])])))
    assert len(list(complete_batches(built * 2 + built[:-1]))) == 2
    with pytest.raises(InvalidRecords):
        list(batches(built * 2 + built[:-1]))
