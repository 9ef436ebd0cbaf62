"""Putting cleaned segments in their place: crashes, errors, readers, and logs that changed."""

import errno
import os

import pytest

from kwire.errors import KafkaError
from kwire.log.compaction.cleaner import Cleaner
from kwire.log.compaction.local import run_clean
from kwire.log.compaction.swap import are_in_log
from kwire.log.compaction.throttle import Throttle
from kwire.log.producer_snapshot import to_snapshot
from kwire.log.truncation import truncate_log
from kwire.record.batch import complete_batches
from tests.support.log_state import close_files, leader_epochs


def fill(c):
    """Three groups of segments, one of them with an aborted transaction."""
    for number in range(12):
        c.put(f"k{number % 3}", f"{number:040}")
    c.put("k0", "aborted", producer=(1, 0, 0), transactional=True)
    c.put("k9", "1")
    c.end(1, commit=False)
    for number in range(6):
        c.put(f"k{number}", f"{number:040}")
    c.log.roll(c.now_ms)


WANTED = [(13, "k9", "1"), *((15 + n, f"k{n}", f"{n:040}") for n in range(6))]


def latest(contents):
    """The last value of each key."""
    return {key: value for _, key, value in contents}


def test_a_crash_at_any_moment_leaves_a_log_that_is_right(compaction, crashing_disk):
    """Each group is either as it was or cleaned; the next clean does the rest."""
    crash_at = 0
    outcomes = set()
    while True:
        c = compaction(segment_bytes=1000)
        close_files(c.log)
        for path in c.tools.directory.iterdir():
            path.unlink()
        c.reopen()
        fill(c)
        before = c.contents()
        snapshot = to_snapshot(c.log.producers)
        disk = crashing_disk(crash_at)
        c.begin(disk)
        try:
            finished = run_clean(c.manager, c.next_clean(), disk, c.now_ms)
        except disk.Crash:
            finished = False
        c.reopen()
        found = c.contents()
        outcomes.add(len(found))
        assert set(WANTED) <= set(found) <= set(before)
        assert found == sorted(found)
        assert latest(found) == latest(before)
        assert c.log.log_end_offset == 21
        assert to_snapshot(c.log.producers) == snapshot
        assert [a.last_offset for a in c.log.aborted_transactions(0, 21)] == [14]
        names = {path.suffix[1:] for path in c.tools.directory.iterdir()}
        assert not names & {"swap", "cleaned", "deleted", "tmp"}
        if crash_at % 8 == 0 or finished:
            assert c.put("new", "1") == 21
            c.log.first_dirty_offset = 0
            assert c.compact() is not None
            assert c.contents() == [*WANTED, (21, "new", "1")]
        if finished:
            break
        crash_at += 1
    assert crash_at > 40
    assert len(outcomes) >= 3


@pytest.mark.parametrize("power", ["recovery point 0", "recovery point at the end"])
def test_a_log_that_was_compacted_is_recovered_like_any_other(compaction, power):
    """After a crash, with every index gone."""
    c = compaction(segment_bytes=500)
    fill(c)
    assert c.compact(roll=False) is not None
    c.log.recovery_point = 0 if power == "recovery point 0" else 21
    for suffix in ("index", "timeindex"):
        for path in c.tools.directory.glob(f"*.{suffix}"):
            path.unlink()
    c.reopen()
    assert c.contents() == WANTED
    assert [a.last_offset for a in c.log.aborted_transactions(0, 21)] == [14]


def test_the_segments_of_a_group_become_one(compaction):
    """By size; indexes and snapshots of those that are gone go too."""
    c = compaction(segment_bytes=500)
    fill(c)
    before = c.bases()
    assert len(before) >= 5
    snapshots = {int(p.stem) for p in c.tools.directory.glob("*.snapshot")}
    assert set(before[1:]) <= snapshots
    assert c.compact(roll=False) is not None
    c.put("k9", "2")
    c.compact()
    after = c.bases()
    assert len(after) < len(before)
    assert {int(p.stem) for p in c.tools.directory.glob("*.snapshot")} == set(after[1:])
    assert {int(p.stem) for p in c.tools.directory.glob("*.log")} == set(after)
    assert {int(p.stem) for p in c.tools.directory.glob("*.timeindex")} == set(after[:-1])
    for segment in c.log.segments:
        assert segment.size_bytes == segment.path(".log").stat().st_size
        assert segment.size_bytes <= 500


def test_the_leader_epochs_stay(compaction):
    """They say who wrote what, also of what is gone."""
    c = compaction(segment_bytes=200)
    for epoch in range(4):
        batch = c.tools.batch(b"x", keys=(b"k",))
        c.log.append(batch, leader_epoch=epoch, now_ms=c.now_ms)
    epochs = list(leader_epochs(c.log))
    assert c.compact() is not None
    c.reopen()
    assert leader_epochs(c.log) == epochs
    [batch] = c.tools.batches(c.log)
    assert batch.partition_leader_epoch == 3


def test_who_reads_is_not_disturbed(compaction):
    """A slice that was given out is sent from the old file, also when that is deleted."""
    c = compaction(segment_bytes=500, file_delete_delay_ms=0)
    fill(c)
    found = c.log.read(0, 10_000, end_offset=21, min_one_batch=True)
    wanted = os.pread(found.fd, found.size_bytes, found.position)
    old = list(c.log.segments)
    assert c.compact(roll=False) is not None
    assert os.pread(found.fd, found.size_bytes, found.position) == wanted
    read = [batch.base_offset for segment in old[:-1] for batch in segment.batches()]
    assert read == list(range(21))
    for _, paths in c.log.doomed:
        for path in paths:
            path.unlink(missing_ok=True)
    assert len(list(complete_batches(os.pread(found.fd, found.size_bytes, found.position)))) > 3


def test_the_index_of_a_cleaned_segment_finds_what_is_there(compaction):
    """Every offset is found in its batch or the one after it."""
    c = compaction(segment_bytes=40_000, segment_index_bytes=10_000)
    for number in range(300):
        c.put(f"k{number % 100}", "x" * 30)
    assert c.compact() is not None
    segment = c.log.segments[0]
    assert segment.offset_index.entries > 10
    assert segment.time_index.entries >= 1
    for offset in range(300):
        header = segment.find(offset)
        assert header.base_offset == max(offset, 200)


@pytest.mark.parametrize("change", ["truncated", "deleted", "offline"])
def test_a_log_that_changed_is_left_as_it_is(compaction, change):
    """What was cleaned meanwhile is thrown away."""
    c = compaction(segment_bytes=500)
    fill(c)
    clean = c.next_clean()
    throttle = Throttle(1e9, float, id)
    cleaner = Cleaner(clean.job, c.tools.disk, clock=float, throttle=throttle)
    groups = list(cleaner.run())
    assert list(c.tools.directory.glob("*.cleaned"))
    if change == "truncated":
        truncate_log(c.log, 20, c.now_ms, c.tools.disk, c.now_ms)
        assert c.put("k5", f"{5:040}") == 20
        c.log.roll(c.now_ms)
    elif change == "deleted":
        c.logs.clear()
    else:
        c.log.health.fail("it is broken", OSError(errno.EIO, "broken"))
    before = c.bases()
    gone = [c.manager.swap(clean, group, c.now_ms) for group in groups]
    assert not any(gone)
    assert c.bases() == before


def test_segments_that_retention_took_meanwhile_are_no_trouble(compaction):
    """DeleteRecords: their cleaned copies are thrown away, the others take their places."""
    c = compaction(segment_bytes=500)
    fill(c)
    clean = c.next_clean()
    cleaner = Cleaner(clean.job, c.tools.disk, clock=float, throttle=Throttle(1e9, float, id))
    groups = list(cleaner.run())
    bound = groups[0].replaced[-1]
    end = next(base for base in c.bases() if base > bound)
    c.log.advance_log_start_offset(end)
    while c.bases()[0] < end:
        c.log.doomed.append((0, c.log.segments.pop(0).delete_later()))
    assert all(c.manager.swap(clean, group, c.now_ms) for group in groups)
    assert not list(c.tools.directory.glob("*.cleaned"))
    assert c.contents() == [row for row in WANTED if row[0] >= end]


def test_segments_of_which_the_first_is_gone_are_not_in_a_log(compaction):
    """Though the last of them still is."""
    c = compaction(segment_bytes=500)
    fill(c)
    segments = c.log.segments[:3]
    assert are_in_log(c.log, segments)
    c.log.doomed.append((0, c.log.segments.pop(0).delete_later()))
    assert not are_in_log(c.log, segments)


@pytest.mark.parametrize("fail_at", range(25))
def test_an_error_of_the_disk_in_a_swap(compaction, fail_at):
    """Before the swap nothing has happened; halfway the directory goes offline."""
    c = compaction(segment_bytes=500)
    fill(c)
    before = c.contents()
    clean = c.next_clean()
    cleaner = Cleaner(clean.job, c.tools.disk, clock=float, throttle=Throttle(1e9, float, id))
    groups = list(cleaner.run())
    c.tools.disk.calls, c.tools.disk.fail_at = 0, fail_at
    failed: list[type] = []
    try:
        for group in groups:
            assert c.manager.swap(clean, group, c.now_ms)
    except (OSError, KafkaError) as error:
        failed.append(type(error))
    c.tools.disk.fail_at = -1
    assert c.log.is_offline == (failed == [KafkaError])
    if not c.log.is_offline:
        assert latest(c.contents()) == latest(before)
    c.log.health.failure = None
    c.reopen()
    assert latest(c.contents()) == latest(before)


@pytest.mark.parametrize("when", ["before", "in between"])
def test_a_topic_that_is_deleted_while_its_log_is_swapped(compaction, monkeypatch, when):
    """The swap comes to nothing, and the data directory stays online."""
    c = compaction(segment_bytes=500)
    fill(c)
    clean = c.next_clean()
    cleaner = Cleaner(clean.job, c.tools.disk, clock=float, throttle=Throttle(1e9, float, id))
    group = next(iter(cleaner.run()))
    gone = c.tools.directory.with_name("t-0.gone-delete")

    def delete(path):
        c.log.abandon()
        c.tools.directory.rename(gone)

    if when == "before":
        delete(c.tools.directory)
    else:
        monkeypatch.setattr(c.tools.disk, "sync_directory", delete)
    assert not c.manager.swap(clean, group, c.now_ms)
    assert not c.log.is_offline
