"""When a segment ends, and what its indexes hold then: byte for byte as Apache Kafka 4.3.1 has it.

The digests are those of the files that Apache Kafka wrote when it was sent the same batches.
"""

import hashlib
import random
from itertools import pairwise

import pytest

from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.replication import append_replicated
from kwire.log.rolling import is_full, note_room
from kwire.log.segment import LogSegment
from kwire.record.batch import RecordBatch
from kwire.record.records import BatchBuilder
from tests.support.log_state import base_offsets

START_MS = 1_700_000_000_000


def batch(times, values):
    """A batch of records."""
    builder = BatchBuilder()
    for time, value in zip(times, values, strict=True):
        builder.add(START_MS + time, b"k", value)
    return bytes(builder.build())


def by_size(chance):
    """Large batches."""
    return [batch([n], [chance.randbytes(chance.randint(10, 90_000))]) for n in range(60)]


def by_time(chance):
    """Times that go on by leaps."""
    return [batch([chance.randint(0, 2000) * n], [b"v"]) for n in range(100)]


def by_time_going_back(chance):
    """Times in any order, within batches too."""
    batches = []
    for _ in range(100):
        first = chance.randint(-20_000, 20_000)
        batches.append(batch([first, first + chance.randint(-9000, 12_000)], [b"v"] * 2))
    return batches


def small(chance):
    """Single small records, times in any order."""
    return [
        batch([chance.randint(0, 1000)], [chance.randbytes(chance.randint(1, 300))])
        for _ in range(300)
    ]


def ascending(chance):
    """Four small records each."""
    return [
        batch([n] * 4, [chance.randbytes(chance.randint(1, 60)) for _ in range(4)])
        for n in range(300)
    ]


def often(chance):
    """Three megabytes of batches, with an index entry for each few of them."""
    return [
        batch(
            [n + chance.randint(-50, 50) for _ in range(4)],
            [chance.randbytes(chance.randint(1, 2000)) for _ in range(4)],
        )
        for n in range(700)
    ]


CASES = {
    "by size": (by_size, {"segment.bytes": 1 << 20}),
    "by time": (by_time, {"segment.ms": 10_000}),
    "by time going back": (by_time_going_back, {"segment.ms": 10_000}),
    "index full": (small, {"segment.index.bytes": 160, "index.interval.bytes": 10}),
    "index full by time": (ascending, {"segment.index.bytes": 160, "index.interval.bytes": 100}),
    "often": (often, {"segment.bytes": 1 << 20, "index.interval.bytes": 4096}),
}
KAFKA_WROTE = {
    "by size": (3, "37ff48dc4ea39f22"),
    "by time": (10, "85fc5400aef6eff8"),
    "by time going back": (2, "0f4eb3f17405ce6e"),
    "index full": (15, "2b500f6f43708659"),
    "index full by time": (24, "5c1f0aba321aa254"),
    "often": (3, "f5cc89cae12250bb"),
}


def digest(directory):
    """Of all files of the segments that are full; how many segments there are."""
    found = hashlib.sha256()
    logs = sorted(directory.glob("*.log"))
    for log in logs[:-1]:
        for suffix in (".log", ".index", ".timeindex"):
            found.update(log.with_suffix(suffix).read_bytes())
    return len(logs), found.hexdigest()[:16]


@pytest.mark.parametrize("case", CASES)
def test_segments_and_indexes_are_those_of_kafka(tools, case):
    """By size, by time and by indexes that are full, for the same batches."""
    make, settings = CASES[case]
    log = tools.open(**{name.replace(".", "_"): value for name, value in settings.items()})
    for data in make(random.Random(3)):
        log.append(data, leader_epoch=0, now_ms=START_MS)
    assert digest(tools.directory) == KAFKA_WROTE[case]


def test_jitter_is_a_part_that_differs_between_segments(tools):
    """Segments of one age don't all roll at the same moment."""
    log = tools.open(segment_ms=10_000, segment_jitter_ms=10_000)
    time = 0
    for n in range(400):  # the jitter of a segment goes by its path, so a few may have the same
        log.append(batch([time], [b"v"]), leader_epoch=0, now_ms=START_MS)
        time += 500 if n else 0
    ends = base_offsets(log)
    lengths = {after - before for before, after in pairwise(ends)}
    assert len(lengths) > 1
    assert max(lengths) <= 21


def test_offsets_that_no_longer_fit_into_an_index_entry(tools):
    """2**31 - 1 behind the segment's base is the last offset that does."""
    log = tools.open()
    for base in (0, 2**31 - 1, 2**31):
        data = bytearray(batch([0], [b"v"]))
        data[:8] = base.to_bytes(8, "big")
        append_replicated(log, data, leader_epoch=0, now_ms=START_MS)
    assert base_offsets(log) == [0, 2**31]


def test_only_what_a_former_segment_left_is_cut(tmp_path):
    """What is new isn't cut to nothing: ext4 would write it out whenever it is closed."""
    cut = []

    class Watched(Disk):
        def truncate(self, fd, size_bytes):
            cut.append(size_bytes)
            super().truncate(fd, size_bytes)

    for left in (b"", b"left behind"):
        if left:
            (tmp_path / "00000000000000000000.log").write_bytes(left)
        new = LogSegment(tmp_path, 0, Watched(), index_bytes=4096, index_interval_bytes=4096)
        new.create()
        assert cut == [0] * bool(left)
        assert new.file().size() == 0
        new.close()


@pytest.mark.parametrize("seed", range(4))
def test_the_room_that_is_noted_ends_where_a_segment_is_full(tools, seed):
    """The fast path draws the same line as its slow twin, by size, by offset and by age."""
    chance = random.Random(seed)
    jitter_ms = chance.choice([0, 700])
    config = LogConfig(segment_bytes=3000, segment_ms=1000, segment_jitter_ms=jitter_ms)
    log = tools.open(segment_bytes=1 << 20)
    segment = log.segments[-1]
    seen = set()
    for _ in range(30):
        time = START_MS + chance.randrange(100)
        log.append(batch([time - START_MS], [b"v"]), leader_epoch=0, now_ms=START_MS)
        note_room(segment, config)
        for _ in range(20):
            oldest_ms = segment.room_timestamp - START_MS
            age_ms = chance.choice([0, chance.randrange(1100), oldest_ms, oldest_ms + 1])
            data = batch([age_ms], [bytes(chance.randrange(3000))])
            offset = chance.choice([segment.base_offset + 2**31 - 2 + chance.randrange(3), 500])
            wanted = RecordBatch(data)
            has_room = (
                segment.size_bytes + len(data) <= segment.room_bytes
                and offset <= segment.room_offset
                and wanted.max_timestamp <= segment.room_timestamp
            )
            assert has_room == (not is_full(segment, wanted, offset, config, START_MS))
            seen.add(has_room)
    assert seen == {True, False}


def test_no_room_is_noted_where_an_index_is_full(tools):
    """Whatever comes next begins a segment."""
    log = tools.open(segment_index_bytes=24, index_interval_bytes=0)
    segment = log.segments[-1]
    while not (segment.offset_index.is_full or segment.time_index.is_full):
        log.append(batch([log.log_end_offset], [b"v"]), leader_epoch=0, now_ms=START_MS)
        assert len(base_offsets(log)) == 1
    note_room(segment, log.config)
    assert segment.room_bytes == -1
    assert is_full(segment, RecordBatch(batch([0], [b"v"])), 9, log.config, START_MS)


def test_no_room_is_noted_where_the_clock_decides(tools):
    """The first batch has no timestamp: whether the segment is old changes by itself."""
    log = tools.open(segment_ms=1000)
    data = batch([-1 - START_MS], [b"v"])
    append_replicated(log, data, leader_epoch=0, now_ms=START_MS)
    segment = log.segments[-1]
    note_room(segment, log.config)
    assert segment.room_bytes == -1
    wanted = RecordBatch(data)
    created_ms = segment.created_ms
    assert not is_full(segment, wanted, 1, log.config, created_ms + 1000)
    assert is_full(segment, wanted, 1, log.config, created_ms + 1001)
