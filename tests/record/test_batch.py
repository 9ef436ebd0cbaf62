"""The batch header: fields, bounds, the checksum, and what a broker may rewrite."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import ErrorCode, KafkaError
from kwire.record.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    RecordBatch,
    assign_offsets,
    batches,
    complete_batches,
    set_max_timestamp,
)
from kwire.record.batch_scan import scan_headers
from kwire.record.records import ProducerState, Record, build_batch


def a_batch(base_offset: int = 0, count: int = 3, base_sequence: int = 0) -> bytearray:
    """A batch of an idempotent producer."""
    items = [Record(base_offset + n, 1000 + n, b"k", b"v") for n in range(count)]
    producer = ProducerState(5, 1, base_sequence)
    return build_batch(items, base_offset=base_offset, producer=producer, leader_epoch=8)


def test_every_field_is_where_kip_98_puts_it() -> None:
    """The properties are those of the format."""
    batch = RecordBatch(a_batch(40))
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (40, 42, 43)
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 1002)
    assert (batch.producer_id, batch.producer_epoch, batch.last_sequence) == (5, 1, 2)
    assert (batch.partition_leader_epoch, batch.records_count, batch.magic) == (8, 3, 2)
    assert batch.size_bytes == len(batch.data) == HEADER_BYTES + len(batch.payload)
    assert not batch.is_control
    assert not batch.is_transactional
    assert batch.delete_horizon_ms is None


def test_sequences_wrap_to_0() -> None:
    """After 2**31 - 1 comes 0."""
    assert RecordBatch(a_batch(base_sequence=MAX_SEQUENCE)).last_sequence == 1


def test_offsets_are_assigned_without_touching_the_checksum() -> None:
    """Base offset and leader epoch lie outside it."""
    data = a_batch()
    assign_offsets(RecordBatch(data), 900, 3)
    batch = RecordBatch(data)
    batch.verify_crc()
    assert (batch.base_offset, batch.partition_leader_epoch) == (900, 3)


def test_log_append_time_comes_with_a_new_checksum() -> None:
    """Attributes and max timestamp lie inside it; the second batch of a buffer is left alone."""
    data = a_batch() + a_batch(3)
    set_max_timestamp(RecordBatch(data), LOG_APPEND_TIME, 123_456)
    first, second = batches(data)
    assert (first.timestamp_type, first.max_timestamp) == (LOG_APPEND_TIME, 123_456)
    first.verify_crc()
    second.verify_crc()
    assert second.max_timestamp == 1002


@given(st.integers(21), st.integers(1, 255))
def test_the_checksum_notices_a_changed_byte(place: int, change: int) -> None:
    """Any byte from the attributes to the end."""
    data = a_batch()
    data[21 + place % (len(data) - 21)] ^= change
    with pytest.raises(KafkaError, match="checksum") as caught:
        RecordBatch(data).verify_crc()
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [17, 34, 200])
def test_old_formats_are_told_apart(magic: int, size: int) -> None:
    """Magics 0 and 1 get their own error, also where the message is shorter than a v2 header."""
    old = struct.pack(">qiib", 0, size - 12, 0, magic).ljust(size, b"\0")
    with pytest.raises(KafkaError) as caught:
        RecordBatch(old)
    assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 10_000, 2**31 - 1])
def test_a_wrong_length_is_corrupt(length: int) -> None:
    """Shorter than a header or longer than the bytes there are."""
    data = a_batch()
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(KafkaError) as caught:
        RecordBatch(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    """There is no format 3."""
    data = a_batch()
    struct.pack_into(">b", data, 16, magic)
    with pytest.raises(KafkaError, match="unknown magic") as caught:
        RecordBatch(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_batches_must_fill_the_buffer_and_complete_batches_need_not() -> None:
    """Every length of a torn last batch."""
    whole = bytes(a_batch()) + bytes(a_batch(3))
    assert [batch.base_offset for batch in batches(whole)] == [0, 3]
    first = len(a_batch())
    for size in range(first + 1, len(whole)):
        assert [batch.base_offset for batch in complete_batches(whole[:size])] == [0]
        with pytest.raises(KafkaError):
            list(batches(whole[:size]))


@given(st.binary(max_size=300))
def test_garbage_raises_nothing_but_kafka_errors(data: bytes) -> None:
    """For every way to walk a buffer."""
    for walk in (batches, complete_batches):
        with contextlib.suppress(KafkaError):
            list(walk(data))


@given(st.integers(61, 400), st.integers(0, 400))
def test_headers_are_scanned_alike_whatever_the_chunks(chunk_bytes: int, cut: int) -> None:
    """Batches across the borders of chunks are found; the torn one at the end is not."""
    whole = b"".join(bytes(a_batch(n * 3, 3)) for n in range(8))
    data = whole[: len(whole) - cut]
    found = scan_headers(lambda at, size: data[at : at + size], 0, len(data), chunk_bytes)
    wanted = [(b.position, b.base_offset, b.last_offset) for b in complete_batches(data)]
    assert [(h.position, h.base_offset, h.last_offset) for h in found] == wanted
