"""After a crash: what was written is there, what was torn is gone, and the log goes on."""

import os
import random
import shutil

import pytest

from kwire.log.recovery import open_log
from kwire.log.segment import LogSegment
from tests.support.log_state import (
    base_offsets,
    close_files,
    known_producers,
    leader_epochs,
    log_files,
)
from tests.support.machine import Machine
from tests.support.time_lookups import offset_for_timestamp


def write_some(tools, log, count=12):
    """Batches of an idempotent producer."""
    for number in range(count):
        tools.append(log, b"%d" % number, b"y" * 40, producer=(9, 0, number * 2))


def crash(log):
    """What a kill -9 leaves: open files are closed by the system, nothing else happens."""
    close_files(log)


def test_everything_written_is_there_after_a_kill(tools):
    """Preallocated indexes, no snapshot of the end, no flush: all is rebuilt from the log."""
    log = tools.open(segment_bytes=2000, index_interval_bytes=200)
    write_some(tools, log, 60)
    before, entries = tools.values(log), [s.offset_index.entries for s in log.segments]
    crash(log)
    log = tools.open(clean=False, segment_bytes=2000, index_interval_bytes=200)
    assert tools.values(log) == before
    assert [s.offset_index.entries for s in log.segments] == entries
    assert known_producers(log)[9].last_sequence == 119
    assert log.recovery_point == 0
    log.close(tools.now_ms)
    assert log.recovery_point == 120


def test_what_was_recovered_is_synced_by_the_next_flush(tools, monkeypatch):
    """The crash may have come before the disk had it; segments before that have been synced."""
    log = tools.open(segment_bytes=600)
    write_some(tools, log, 20)
    bases = base_offsets(log)
    assert len(bases) > 3
    crash(log)
    log = tools.open(clean=False, segment_bytes=600, recovery_point=bases[1])
    synced = set()
    monkeypatch.setattr(tools.disk, "sync", lambda fd: synced.add(os.fstat(fd).st_ino))
    log.flush(0)
    files = [tools.directory / f"{base:020d}.log" for base in bases]
    assert [file.stat().st_ino in synced for file in files] == [False, *[True] * (len(bases) - 1)]
    assert not log.flush_time_is_due(0)


def test_a_tail_torn_at_any_byte_is_cut(tools, tmp_path):
    """Wherever the last batch ends, the whole ones before it stay and its offset is used again."""
    log = tools.open()
    write_some(tools, log, 3)
    ends = [b.size_bytes for b in tools.batches(log)]
    size, first_two = sum(ends), sum(ends[:2])
    crash(log)
    original = tmp_path / "original"
    shutil.copytree(tools.directory, original)
    for length in range(first_two, size):
        shutil.rmtree(tools.directory)
        shutil.copytree(original, tools.directory)
        with open(tools.directory / f"{0:020d}.log", "r+b") as file:
            file.truncate(length)
        log = tools.open(clean=False)
        assert (log.log_end_offset, log.size_bytes) == (4, first_two)
        assert tools.append(log, b"new", producer=(9, 0, 4)) == 4
        crash(log)


def test_a_damaged_byte_ends_the_log_before_its_batch(tools, tmp_path):
    """A byte changed anywhere after the recovery point never comes out of a read."""
    log = tools.open(segment_bytes=600)
    write_some(tools, log, 12)
    values = tools.values(log)
    crash(log)
    original = tmp_path / "original"
    shutil.copytree(tools.directory, original)
    chance = random.Random(3)
    for _ in range(60):
        shutil.rmtree(tools.directory)
        shutil.copytree(original, tools.directory)
        path = chance.choice(sorted(tools.directory.glob("*.log")))
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
        path.write_bytes(data)
        log = tools.open(clean=False, segment_bytes=600)
        found = tools.values(log)
        # Base offset, leader epoch and magic's neighbors lie outside the checksum: an offset may
        # be wrong upwards, as in Kafka. Values never are.
        known = [value for _, value in values]
        assert [value for _, value in found] == known[: len(found)]
        assert log.log_end_offset == (found[-1][0] + 1 if found else 0)
        tools.append(log, b"more")
        crash(log)


def test_garbage_and_zeros_after_the_end_are_cut(tools):
    """What a file system may append in a crash."""
    for junk in (b"\0" * 5000, b"\xff" * 61, random.Random(1).randbytes(3000), b"\0" * 60):
        log = tools.open(clean=False)
        write_some(tools, log, 1) if not log.log_end_offset else None
        before = tools.values(log)
        crash(log)
        with open(tools.directory / f"{0:020d}.log", "ab") as file:
            file.write(junk)
        log = tools.open(clean=False)
        assert tools.values(log) == before
        crash(log)


def test_only_what_lies_after_the_recovery_point_is_read(tools, monkeypatch):
    """Recovery costs what the crash may have touched, not the whole log."""
    log = tools.open(segment_bytes=600)
    write_some(tools, log, 20)
    log.flush(tools.now_ms)
    flushed = log.recovery_point
    write_some_more = [tools.append(log, b"z" * 90) for _ in range(3)]
    crash(log)
    read = []
    whole = LogSegment.scan

    def noting(segment, *arguments):
        read.append(segment.base_offset)
        return whole(segment, *arguments)

    monkeypatch.setattr(LogSegment, "scan", noting)
    log = tools.open(clean=False, recovery_point=flushed, segment_bytes=600)
    assert log.log_end_offset == write_some_more[-1] + 1
    assert min(read) >= flushed - 8


@pytest.mark.parametrize("damage", ["missing", "garbage", "odd size", "zeros"])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_is_a_hint(tools, suffix, damage):
    """Whatever happened to it, the log is the truth, also after a clean stop."""
    log = tools.open(segment_bytes=3000, index_interval_bytes=100)
    for number in range(60):
        tools.append(log, b"%d" % number, b"y" * 40, timestamp=tools.now_ms + number)
    before = tools.values(log)
    log.close(tools.now_ms)
    for path in tools.directory.glob(f"*.{suffix}"):
        if damage == "missing":
            path.unlink()
        elif damage == "garbage":
            path.write_bytes(b"\xff\xf0" * (path.stat().st_size // 2))
        elif damage == "odd size":
            path.write_bytes(path.read_bytes()[:-1])
        else:
            path.write_bytes(bytes(path.stat().st_size * 3))
    log = tools.open(segment_bytes=3000, index_interval_bytes=100)
    assert tools.values(log) == before
    assert log.segments[0].offset_index.entries > 1
    assert log.segments[0].time_index.entries > 1
    assert log.recovery_point <= log.log_end_offset


def test_damage_in_the_middle_drops_what_follows_after_a_crash(tools):
    """LogLoader: segments behind a damaged one are removed, their offsets would leave a hole."""
    log = tools.open(segment_bytes=600)
    write_some(tools, log, 20)
    assert len(base_offsets(log)) > 3
    crash(log)
    path = log_files(log)[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    bases = base_offsets(log)
    log = tools.open(clean=False, segment_bytes=600)
    assert base_offsets(log) == bases[:2]
    assert log.log_end_offset < bases[2]
    assert known_producers(log)[9].last_sequence == log.log_end_offset - 1


@pytest.mark.parametrize("compact", [False, True])
def test_a_tail_lost_between_two_batches_is_told(tools, compact, caplog):
    """What follows is kept; in a compacted log offsets are missing for a better reason."""
    settings = {"segment_bytes": 500, "compact": compact}
    log = tools.open(**settings)
    write_some(tools, log)
    first, second = log.segments[:2]
    whole = tools.batches(log)
    lost = max(
        (b for b in whole if b.base_offset < second.base_offset), key=lambda b: b.base_offset
    )
    crash(log)
    with open(first.path(".log"), "r+b") as file:
        file.truncate(first.size_bytes - lost.size_bytes)
    log = tools.open(clean=False, **settings)
    left = [b.base_offset for b in whole if b.base_offset != lost.base_offset]
    assert [b.base_offset for b in tools.batches(log)] == left
    told = f"offsets {lost.base_offset} to {lost.last_offset} are missing" in caplog.text
    assert told is not compact


def test_epochs_are_found_again_when_a_crash_undoes_a_new_log_start(tools):
    """The file of the epochs was written, the checkpoint of the log start offset was not."""
    log = tools.open()
    for epoch in (0, 0, 2, 3):
        log.append(tools.batch(b"x"), leader_epoch=epoch, now_ms=tools.now_ms)
        log.roll(tools.now_ms)
    log.advance_log_start_offset(3)
    log.leader_epochs.save()
    crash(log)
    for clean in (True, False):
        for start, known in (
            (0, [(0, 0), (2, 2), (3, 3)]),
            (1, [(0, 1), (2, 2), (3, 3)]),
            (2, [(2, 2), (3, 3)]),
            (3, [(3, 3)]),
        ):
            again = tools.open(clean=clean, recovery_point=4, log_start_offset=start)
            assert leader_epochs(again) == known
            crash(again)


@pytest.mark.parametrize("magic", [1, 2])
def test_a_log_without_epochs_is_not_read_for_them(tools, magic, monkeypatch):
    """Kafka's older message formats have none; the start reads one header at most."""
    log = tools.open()
    for _ in range(3):
        log.append(tools.batch(b"x"), leader_epoch=-1 if magic == 2 else 7, now_ms=tools.now_ms)
        log.append(tools.batch(b"y"), leader_epoch=-1 if magic == 2 else 8, now_ms=tools.now_ms)
        log.roll(tools.now_ms)
    for segment in log.segments:
        with segment.path(".log").open("r+b") as file:
            for header in list(segment.headers()) if magic == 1 else ():
                file.seek(header.position + 16)
                file.write(bytes([magic]))
    log.leader_epochs.clear()
    log.leader_epochs.assign(9, 6)
    log.close(tools.now_ms)
    seen = []
    headers = LogSegment.headers

    def counted(self, *where):
        for header in headers(self, *where):
            seen.append(header)
            yield header

    monkeypatch.setattr(LogSegment, "headers", counted)
    again = tools.open(clean=True, recovery_point=6, log_start_offset=0)
    assert leader_epochs(again) == [(9, 6)]
    assert len(seen) == 6 + 1  # the check of the indexes reads the tails of the segments


def test_a_log_that_ends_before_its_start_begins_anew(tools):
    """DeleteRecords was checkpointed, the records were not yet on the disk."""
    log = tools.open()
    write_some(tools, log, 2)
    crash(log)
    log = tools.open(clean=False, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert tools.append(log, b"x") == 50
    assert tools.values(log) == [(50, b"x")]


def test_a_finished_swap_takes_the_place_of_what_it_replaces(tools, tmp_path):
    """A crash of Kafka's cleaner between two renames loses nothing."""
    log = tools.open(segment_bytes=600)
    write_some(tools, log, 20)
    before = tools.values(log)
    bases = base_offsets(log)
    log.close(tools.now_ms)
    files = [tools.directory / f"{base:020d}.log" for base in bases]
    (tools.directory / f"{bases[0]:020d}.log.swap").write_bytes(
        files[0].read_bytes() + files[1].read_bytes()
    )
    files[0].rename(files[0].with_suffix(".log.deleted"))
    (tools.directory / f"{bases[2]:020d}.log.cleaned").write_bytes(b"half")
    (tools.directory / f"{bases[3]:020d}.log.swap").write_bytes(b"not begun")
    log = tools.open(clean=False, segment_bytes=600)
    assert tools.values(log) == before
    assert base_offsets(log) == [bases[0], *bases[2:]]
    assert not [p for p in tools.directory.iterdir() if p.suffix in (".swap", ".cleaned")]


def test_a_swap_of_one_record_replaces_no_neighbour(tools):
    """The next segment begins with the next offset."""
    log = tools.open(segment_bytes=150)
    for number in range(3):
        tools.append(log, b"%d" % number * 60)
    before = tools.values(log)
    assert base_offsets(log) == [0, 1, 2]
    log.close(tools.now_ms)
    first = tools.directory / f"{0:020d}.log"
    first.rename(first.with_suffix(".log.swap"))
    log = tools.open(clean=False, segment_bytes=150)
    assert tools.values(log) == before


def test_a_swap_whose_files_have_not_all_their_names_is_undone(tools):
    """The log is renamed before its indexes: one that is still ``.cleaned`` says so."""
    log = tools.open(segment_bytes=600)
    write_some(tools, log, 6)
    before = tools.values(log)
    log.close(tools.now_ms)
    first = tools.directory / f"{0:020d}.log"
    first.with_suffix(".log.swap").write_bytes(first.read_bytes()[:100])
    first.with_suffix(".txnindex.cleaned").write_bytes(b"")
    log = tools.open(clean=False, segment_bytes=600)
    assert tools.values(log) == before


def test_a_deleted_segment_can_still_be_read(tools):
    """A reader that has the segment in hand, but not its file, finds the file until it is gone."""
    log = tools.open(segment_bytes=600)
    write_some(tools, log, 20)
    log.close(tools.now_ms)
    first = log.segments[0]
    wanted = [bytes(batch.data) for batch in first.batches()]
    first.delete_later()
    first.path(".log").write_bytes(b"another segment of the same name")
    assert [bytes(batch.data) for batch in first.batches()] == wanted


def test_the_topic_id_is_the_directorys(tools):
    """partition.metadata of an old log counts, not what the caller thinks."""
    log = tools.open()
    log.close(tools.now_ms)
    again = open_log(
        tools.directory,
        "t",
        0,
        log.config,
        disk=tools.disk,
        now_ms=tools.now_ms,
        clean=True,
        topic_id=bytes(16),
    )
    assert again.topic_id == tools.topic_id


@pytest.mark.parametrize("position", [-1, -(1 << 31), (1 << 31) - 1])
def test_an_index_that_points_outside_of_its_segment(tools, position):
    """It is not gone by, and it takes no directory offline."""
    log = tools.open(index_interval_bytes=200)
    for number in range(30):
        tools.append(log, b"%d" % number + b"x" * 60, timestamp=tools.now_ms + number)
    log.close(tools.now_ms)
    path = log.active.path(".index")
    entries = path.read_bytes()
    assert len(entries) >= 4 * 8
    broken = position.to_bytes(4, "big", signed=True)
    path.write_bytes(entries[:12] + broken + entries[16:])
    log = tools.open(clean=True, index_interval_bytes=200)
    for number in range(30):
        assert tools.fetch(log, number, max_bytes=1)[:8] == number.to_bytes(8, "big")
        found = offset_for_timestamp(log, tools.now_ms + number, end_offset=30)
        assert found is not None
        assert found.offset == number
    assert not log.is_offline


class Unlucky(random.Random):
    """Half of what wasn't synced is lost, never all or nothing."""

    def choice(self, seq):
        """A random item; of the probabilities that a machine chooses from, one half."""
        return 0.5 if 0.5 in seq else super().choice(seq)


def test_what_a_recovery_cut_never_comes_back(tools):
    """Nor between records that were written after it, when the power fails a second time.

    Otherwise a record that was lost would be at the offset of another one, on this replica only.
    """
    tails = set()
    for seed in range(100):
        tools.root = tools.directory.parent / f"machine-{seed}"
        tools.root.mkdir()
        tools.directory, chance = tools.root / "t-0", Unlucky(seed)
        machine = Machine(tools.root)
        tools.disk = machine.disk
        log = tools.open()
        tools.append(log, b"kept")
        log.flush(0)
        machine.disk.sync_directory(tools.root)
        for values in ((b"old1", b"old2", b"old3"), (b"new1", b"new2")):
            for value in values:
                tools.append(log, value)
            machine.lose_power(chance)
            tools.disk = machine.disk
            log = tools.open(clean=False, recovery_point=1)
            tails.add(found := tuple(value for _, value in tools.values(log)[1:]))
            ages = [value[:3] for value in found]
            assert ages == sorted(ages, reverse=True), found
        machine.kill()
        tools.directory = tools.root
    assert (b"old1", b"new1", b"new2") in tails
