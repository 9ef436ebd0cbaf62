"""Reading a segment after a crash gives what appending to it gave, whatever the chunks are."""

import logging
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.log import loading, segment_scan
from kwire.log.manager import LogManager
from kwire.log.segment_scan import SegmentScan
from kwire.record.batch import RecordBatch, assign_offsets, complete_batches
from kwire.record.records import BatchBuilder, ProducerState

BASE = 100
OFFSET_ENTRY, TIME_ENTRY = Struct(">ii"), Struct(">qi")  # Kafka's formats of the index files

batch_shapes = st.lists(
    st.tuples(
        st.integers(0, 400),  # bytes of the value
        st.integers(1, 3),  # records
        st.integers(-1, 5000),  # timestamp
        st.integers(-1, 2),  # producer id
        st.booleans(),  # transactional
    ),
    max_size=30,
)


def written(shapes):
    """A segment's bytes with batches of these shapes, and the batches."""
    data, offset = bytearray(), BASE
    for size, count, timestamp, producer_id, transactional in shapes:
        builder = BatchBuilder()
        for _ in range(count):
            builder.add(timestamp, b"k", b"v" * size)
        has_producer = producer_id >= 0
        batch = builder.build(
            producer=ProducerState(producer_id, 0, 0) if has_producer else ProducerState(),
            transactional=transactional and has_producer,
        )
        assign_offsets(RecordBatch(batch), offset, 0)
        data += batch
        offset += count
    return bytes(data), list(complete_batches(bytes(data)))


def scanned(data, interval=200):
    """What a scan finds."""
    scan = SegmentScan(lambda at, size: data[at : at + size], len(data), BASE, interval)
    read = []
    scan.scan(read.append)
    assert sum(read) == scan.size_bytes
    return scan


def expected_indexes(batches, interval=200):
    """The entries that appending makes: (relative offset, position), (timestamp, relative)."""
    offsets, times, since, position, newest = [], [], 0, 0, (-1, -1)
    for batch in batches:
        if batch.max_timestamp > newest[0]:
            newest = (batch.max_timestamp, batch.last_offset - BASE)
        if since > interval:
            offsets.append((batch.last_offset - BASE, position))
            if newest[0] > (times[-1][0] if times else -1):
                times.append(newest)
            since = 0
        since += batch.size_bytes
        position += batch.size_bytes
    return offsets, times


@given(batch_shapes, st.integers(61, 2000))
def test_a_scan_finds_what_was_written(shapes, chunk_bytes):
    """Ends, indexes, timestamps and the batches that the producers need, for any size of chunk."""
    data, batches = written(shapes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_scan, "CHUNK_BYTES", chunk_bytes)
        scan = scanned(data)
    assert (scan.problem, scan.size_bytes) == ("", len(data))
    assert scan.end_offset == (batches[-1].next_offset if batches else BASE)
    offsets, times = expected_indexes(batches)
    assert list(OFFSET_ENTRY.iter_unpack(scan.offset_entries)) == offsets
    assert list(TIME_ENTRY.iter_unpack(scan.time_entries)) == times
    assert scan.max_timestamp == max((b.max_timestamp for b in batches), default=-1)
    replayed = {position: RecordBatch(data, position) for position in scan.replayed}
    for producer_id in range(3):
        own = [b for b in batches if b.producer_id == producer_id]
        wanted = {b.position for b in own if b.is_transactional}
        wanted |= {b.position for b in [b for b in own if not b.is_transactional][-5:]}
        assert {p for p, b in replayed.items() if b.producer_id == producer_id} == wanted


def test_an_entry_comes_after_more_than_an_interval():
    """Not after just an interval, whose bytes begin with the segment or behind an entry."""
    data, batches = written([(50, 1, 1000 + n, -1, False) for n in range(9)])
    interval = 2 * batches[0].size_bytes
    offsets, _ = expected_indexes(batches, interval)
    assert [position for _, position in offsets] == [batches[3].position, batches[6].position]
    assert list(OFFSET_ENTRY.iter_unpack(scanned(data, interval).offset_entries)) == offsets


@given(batch_shapes.filter(len), st.integers(61, 2000), st.data())
def test_a_scan_ends_before_what_is_not_sound(shapes, chunk_bytes, chance):
    """A byte changed under the checksum, a torn end, garbage: the batches before count."""
    data, batches = written(shapes)
    victim = chance.draw(st.sampled_from(batches))
    at = victim.position + chance.draw(st.integers(16, victim.size_bytes - 1))
    damaged = bytearray(data)
    damaged[at] ^= chance.draw(st.integers(1, 255))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_scan, "CHUNK_BYTES", chunk_bytes)
        assert scanned(bytes(damaged)).size_bytes == victim.position
        torn = scanned(data[:at])
        assert (torn.size_bytes, bool(torn.problem)) == (victim.position, True)
        garbage = scanned(data[: victim.position] + b"\xff" * 100)
        assert (garbage.size_bytes, bool(garbage.problem)) == (victim.position, True)


def test_a_length_is_never_believed():
    """A batch that claims two gigabytes makes nobody read, or hold, more than there is."""
    data = bytearray(written([(300, 1, 0, -1, False)] * 3)[0])
    batches = list(complete_batches(data))
    data[batches[1].position + 8 : batches[1].position + 12] = (2**31 - 1).to_bytes(4, "big")
    asked = []

    def read(position, size_bytes):
        asked.append(size_bytes)
        return bytes(data[position : position + size_bytes])

    scan = SegmentScan(read, len(data), BASE, 200)
    scan.scan(lambda size_bytes: None)
    assert scan.size_bytes == batches[1].position
    assert max(asked) <= len(data)


def test_progress_is_told(tools, tmp_path, caplog, monkeypatch):
    """Which directory, how many logs and bytes of how many; at least at the end."""
    manager = LogManager.open([tmp_path / "d"], node_id=1, now_ms=0)
    for index in range(3):
        log = manager.get_or_create("t", index, bytes([1] * 16), tools.open().config, 0)
        tools.append(log, b"x" * 1000)
    manager.close(0, clean=False)
    monkeypatch.setattr(loading, "TELL_INTERVAL_S", 0)
    with caplog.at_level(logging.INFO):
        LogManager.open([tmp_path / "d"], node_id=1, now_ms=0).close(0)
    told = [r.getMessage() for r in caplog.records if "recover" in r.getMessage()]
    assert told[0].startswith(f"recovering {tmp_path / 'd'}: 0 of 3 logs, 0.0 of 0.0 MB")
    assert told[-1].startswith(f"recovered {tmp_path / 'd'}: 3 of 3 logs")
