"""Records: round trips, agreement with other clients' builders, and refusal of everything else."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import ErrorCode, KafkaError
from kwire.record.batch import (
    LOG_APPEND_TIME,
    InvalidRecords,
    RecordBatch,
    TooLarge,
    build_header,
)
from kwire.record.compression import STRETCH_BYTES, Compression
from kwire.record.record_index import RecordIndex
from kwire.record.record_validator import record_times, validate_records
from kwire.record.records import (
    BatchBuilder,
    ProducerState,
    Record,
    build_batch,
    recompress,
    records,
    renumbered,
)
from kwire.record.streaming_decompressor import (
    NO_LIMITS,
    Limits,
    RecordTooLarge,
    StreamingDecompressor,
)
from kwire.record.varint import append_varint

INT64_MAX = 2**63 - 1

maybe_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3).map(tuple)
timestamps = st.integers(0, 2**41)
contents = st.lists(st.tuples(timestamps, maybe_bytes, maybe_bytes, headers), min_size=1)


def raw_batch(payload: bytes, count: int = 1, **fields: int) -> RecordBatch:
    """A batch with this payload whose header says ``count`` records."""
    header = {
        "base_offset": 0,
        "leader_epoch": -1,
        "attributes": 0,
        "last_offset_delta": count - 1,
        "base_timestamp": 0,
        "max_timestamp": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
    }
    return RecordBatch(build_header(payload, records_count=count, **{**header, **fields}))


def consume(found: Iterable[object] | RecordIndex) -> None:
    """Read to the end; an index has read everything already."""
    if not isinstance(found, RecordIndex):
        deque(found, maxlen=0)


def raw_record(body: bytes) -> bytes:
    """A record with its length, which must be below 64."""
    return bytes([len(body) * 2]) + body


@given(contents, st.integers(0, INT64_MAX - 1000), st.sampled_from(Compression))
def test_records_come_back_as_they_were_built(
    items: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    base_offset: int,
    compression: Compression,
) -> None:
    """Null and empty keys, values and header values; timestamps in any order; every codec."""
    wanted = [Record(base_offset + n, *item) for n, item in enumerate(items)]
    built = RecordBatch(build_batch(wanted, base_offset=base_offset, compression=compression))
    built.verify_crc()
    list(validate_records(built))
    assert list(records(built)) == wanted
    assert (built.records_count, built.last_offset) == (len(wanted), wanted[-1].offset)
    assert built.max_timestamp == max(record.timestamp for record in wanted)


@given(contents)
def test_aiokafka_builds_the_same_bytes(
    items: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
) -> None:
    """An independent builder's batch is byte for byte ours, and its reader reads ours."""
    theirs = DefaultRecordBatchBuilder(2, 0, False, 7, 3, 11, 10_000_000)
    for n, (timestamp, key, value, fields) in enumerate(items):
        theirs.append(n, timestamp, key, value, list(fields))
    ours = build_batch(
        (Record(n, *item) for n, item in enumerate(items)), producer=ProducerState(7, 3, 11)
    )
    assert bytes(ours) == bytes(theirs.build())
    assert [(r.offset, r.key, r.value) for r in DefaultRecordBatch(bytes(ours))] == [
        (n, item[1], item[2]) for n, item in enumerate(items)
    ]


def test_a_batch_of_no_producer_is_aiokafkas() -> None:
    """Id, epoch and sequence are -1, as in a batch of a producer that isn't idempotent."""
    theirs = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 10_000_000)
    theirs.append(0, 5, None, b"v", [])
    assert bytes(build_batch([Record(0, 5, None, b"v")])) == bytes(theirs.build())


def test_offsets_may_have_gaps() -> None:
    """A compacted batch keeps its span."""
    builder = BatchBuilder(100)
    builder.add(5, b"a", None, offset=103)
    builder.add(6, b"b", None, offset=110)
    batch = RecordBatch(builder.build(last_offset_delta=20))
    assert [record.offset for record in records(batch)] == [103, 110]
    assert (batch.last_offset, batch.next_offset) == (120, 121)


def test_with_log_append_time_all_records_have_the_time_of_the_batch() -> None:
    """The deltas in the records are the producer's and do not count."""
    builder = BatchBuilder()
    builder.add(5, None, b"a")
    builder.add(9, None, b"b")
    batch = RecordBatch(builder.build(timestamp_type=LOG_APPEND_TIME))
    assert [record.timestamp for record in records(batch)] == [9, 9]


@pytest.mark.parametrize("codec", Compression)
def test_recompressing_keeps_all_but_the_codec(codec: Compression) -> None:
    """Header fields and records stay."""
    items = [Record(n, n, b"key", b"value" * n) for n in range(50)]
    before = RecordBatch(build_batch(items, compression=Compression.GZIP, leader_epoch=4))
    after = RecordBatch(recompress(before, codec))
    after.verify_crc()
    assert after.compression == codec
    assert list(records(after)) == items
    assert after.partition_leader_epoch == 4


BROKEN = {
    "cut off": raw_record(b"\0\0\0\1\1\0")[:-1],
    "longer than the batch": b"\x7e" + b"\0\0\0\1\1\0",
    "of negative length": b"\1" + b"\0\0\0\1\1\0",
    "followed by a byte": raw_record(b"\0\0\0\1\1\0") + b"\0",
    "with a byte left over": raw_record(b"\0\0\0\1\1\0\0"),
    "with a key that does not fit": raw_record(b"\0\0\0\x7e\1\0"),
    "with a value that does not fit": raw_record(b"\0\0\0\1\x0aabc\0"),
    "with -1 headers": raw_record(b"\0\0\0\1\1\1"),
    "with more headers than bytes": raw_record(b"\0\0\0\1\1\xfe\xff\xff\xff\x0f"),
    "with a header without a key": raw_record(b"\0\0\0\1\1\2\1\1"),
    "with an endless varint": raw_record(b"\0" + b"\xff" * 20),
    "missing": b"",
}


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_record_is_invalid(what: str, before: int) -> None:
    """Reading and checking find the same, in the first record and in one whose piece is here."""
    batch = raw_batch(raw_record(b"\0\0\0\1\1\0") * before + BROKEN[what], before + 1)
    with pytest.raises(KafkaError) as caught:
        list(records(batch))
    assert caught.value.code == ErrorCode.INVALID_RECORD
    with pytest.raises(KafkaError) as caught:
        list(validate_records(batch))
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_a_record_that_is_longer_than_the_batch_is_told_its_length() -> None:
    """Its fields may look sound: they are other bytes."""
    batch = raw_batch(BROKEN["longer than the batch"])
    for read in (validate_records, records):
        with pytest.raises(KafkaError, match="a record of 63 bytes"):
            list(read(batch))


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_wrong_count_is_invalid(count: int) -> None:
    """Two records are not one, three, none or two billion."""
    payload = raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\2\1\1\0")
    batch = raw_batch(payload, count, last_offset_delta=1)
    for read in (validate_records, records):
        with pytest.raises(KafkaError) as caught:
            list(read(batch))
        assert caught.value.code == ErrorCode.INVALID_RECORD


def test_a_timestamp_beyond_64_bits_is_invalid() -> None:
    """Nothing downstream has to store it; the largest one with 64 bits is valid."""
    batch = raw_batch(raw_record(b"\0\2\0\1\1\0"), base_timestamp=INT64_MAX)
    for read in (records, validate_records):
        with pytest.raises(KafkaError, match="64 bits"):
            list(read(batch))
    batch = raw_batch(raw_record(b"\0\0\0\1\1\0"), base_timestamp=INT64_MAX)
    assert [record.timestamp for record in records(batch)] == [INT64_MAX]
    assert list(validate_records(batch)) == [(INT64_MAX, 0, False)]


def test_what_kafka_lets_pass_can_be_read() -> None:
    """Offsets outside of the batch, lengths below -1, names of headers that aren't UTF-8."""
    for raw in (b"\0\0\2\1\1\0", b"\0\0\0\3\1\0", b"\0\0\0\1\3\0"):
        (found,) = records(raw_batch(raw_record(raw)))
        assert (found.key, found.value) == (None, None)
    (found,) = records(raw_batch(raw_record(b"\0\0\0\1\1\2\2\xff\1")))
    assert bytes(build_batch([found]))[61:] == raw_record(b"\0\0\0\1\1\2\2\xff\1")


def test_a_walk_notices_order_keys_and_timestamps() -> None:
    """What is asked of records before they are appended."""
    keys = [None, b"k", None, b""]
    items = [Record(n, n * 10, key, b"v") for n, key in enumerate(keys)]
    assert list(validate_records(RecordBatch(build_batch(items)))) == [
        (0, 0, False),
        (10, 1, True),
        (20, 2, False),
        (30, 3, True),
    ]


def test_opening_a_batch_is_bounded() -> None:
    """A small batch of much text is refused where the caller allows less."""
    batch = RecordBatch(build_batch([Record(0, 0, None, bytes(10**6))], compression=4))
    assert batch.size_bytes < 1000
    many = RecordBatch(build_batch([Record(n, 0, None, b"") for n in range(9)], compression=4))
    for read in (validate_records, records, record_times, RecordIndex):
        with pytest.raises(TooLarge, match="more than 1000 bytes"):
            consume(read(batch, Limits(max_bytes=1000)))
        with pytest.raises(TooLarge, match="more than 8 records"):
            consume(read(many, Limits(max_records=8)))
        consume(read(many, Limits(max_records=9)))


def test_a_record_that_is_too_short_is_no_large_one() -> None:
    """A lookup by time counts such a batch by its header, and fails for a record that is large."""
    batch = raw_batch(raw_record(b"\x00\x00\x00\x01\x01\x00") + bytes([2 * 2, 0, 0, 0]), 2)
    with pytest.raises(InvalidRecords, match="a record of 2 bytes does not fit") as raised:
        consume(record_times(batch))
    assert not isinstance(raised.value, RecordTooLarge)


@pytest.mark.parametrize("compression", list(Compression))
def test_records_that_go_on_in_the_next_stretch(compression: Compression) -> None:
    """Wherever a stretch ends, in a number, a key, a value or a header, all ways to read agree."""
    sizes = [0, 1, 63, 64, 65, 8_000, STRETCH_BYTES - 7, STRETCH_BYTES, 3 * STRETCH_BYTES]
    items = [
        Record(n, n * 1000, b"k" * (n % 200), b"v" * size, (("name", b"x" * (size // 2)),))
        for n, size in enumerate(sizes * 9)
    ]
    items += [Record(n, n, b"key", b"") for n in range(len(items), len(items) + 9_000)]
    batch = RecordBatch(build_batch(items, compression=compression))
    assert list(records(batch)) == items
    walked = list(validate_records(batch))
    assert walked == [(item.timestamp, item.offset, True) for item in items]
    assert list(record_times(batch)) == [(item.offset, item.timestamp) for item in items]
    assert RecordIndex(batch).keys == [item.key for item in items]


def test_a_renumbered_batch_begins_at_the_time_of_its_first_record() -> None:
    """Also where a later record is older: the header has the first and the largest time."""
    items = [Record(5, 70, None, b"a"), Record(9, 50, None, b"b"), Record(11, 90, None, b"c")]
    anew = RecordBatch(renumbered(RecordBatch(build_batch(items)), Compression.NONE))
    assert (anew.base_timestamp, anew.max_timestamp) == (70, 90)


def test_a_feed_knows_how_far_it_is_after_a_record_that_lies_in_several_pieces() -> None:
    """Bytes are counted from the first record, however the pieces of the decompressor are cut."""
    items = [Record(n, n, None, bytes(300_000)) for n in range(5)]
    batch = RecordBatch(build_batch(items, compression=Compression.GZIP))
    stream, done = StreamingDecompressor(batch), 0
    while not stream.is_at_end():
        end = stream.next_record()
        size_bytes = end - stream.position
        encoded = bytearray()
        append_varint(encoded, size_bytes)
        done += len(encoded) + size_bytes
        stream.position = end
        assert stream.done_bytes == done


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("rewrite", [recompress, renumbered])
def test_a_large_batch_is_compressed_anew_in_stretches(
    codec: Compression, rewrite: Callable[..., bytearray]
) -> None:
    """The records stay what they are, and what becomes too large is given up."""
    items = [Record(n, n, b"key", b"%d" % n * 2000) for n in range(500)]
    batch = RecordBatch(build_batch(items, compression=Compression.GZIP))
    anew = RecordBatch(rewrite(batch, codec))
    assert anew.compression == codec
    assert list(records(anew)) == items
    with pytest.raises(KafkaError, match=r"more than 500 bytes") as refused:
        rewrite(batch, codec, max_size_bytes=500)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(TooLarge):
        rewrite(batch, codec, limits=Limits(max_bytes=2_000_000))


def test_who_does_not_want_the_result_any_more_ends_the_walk() -> None:
    """``between`` is called for every stretch, whatever the codec."""
    items = [Record(0, 0, None, bytes(10 * STRETCH_BYTES))]

    def enough() -> None:
        raise RuntimeError

    for codec in Compression:
        batch = RecordBatch(build_batch(items, compression=codec))
        for read in (validate_records, records, record_times):
            with pytest.raises(RuntimeError):
                consume(read(batch, NO_LIMITS, enough))


def test_blocks_of_nothing_end_the_walk_too() -> None:
    """snappy blocks that decompress to no bytes are stretches: otherwise a megabyte of them could
    not be given up."""
    good = RecordBatch(build_batch([Record(0, 0, None, b"")], compression=Compression.SNAPPY))
    payload = bytes(good.payload) + b"\0\0\0\1\0" * 1000
    batch = raw_batch(payload, attributes=Compression.SNAPPY)
    calls: list[None] = []
    for read in (validate_records, records):
        calls.clear()
        consume(read(batch, NO_LIMITS, lambda: calls.append(None)))
        assert len(calls) > 1000
    calls.clear()
    recompress(batch, Compression.GZIP, between=lambda: calls.append(None))
    assert len(calls) > 1000


@given(st.integers(0), st.integers(1, 255), st.sampled_from(Compression))
def test_a_changed_byte_raises_nothing_but_kafka_errors(
    place: int, change: int, compression: Compression
) -> None:
    """Whatever byte of a batch is changed; and its checksum always notices what it covers."""
    items = [Record(n, n, b"key", b"value", (("name", b"x"),)) for n in range(3)]
    data = build_batch(items, compression=compression)
    place %= len(data)
    data[place] ^= change
    try:
        batch = RecordBatch(data)
        assert not (place >= 21 and batch.crc_is_right())
        list(validate_records(batch, Limits(max_bytes=10_000)))
    except KafkaError:
        pass
    with contextlib.suppress(KafkaError):
        list(records(RecordBatch(data), Limits(max_bytes=10_000)))


@pytest.mark.parametrize("timestamp_type", [0, LOG_APPEND_TIME])
def test_a_batch_without_records_is_walked_too(timestamp_type: int) -> None:
    """Compaction leaves such batches, and followers take them as they are."""
    empty = raw_batch(b"", 0, last_offset_delta=4, attributes=timestamp_type << 3)
    assert list(validate_records(empty)) == []
    assert list(records(empty)) == []
