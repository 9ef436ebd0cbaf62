"""Looking up times, and deleting what is past its time."""

import os
from itertools import pairwise

import pytest

from kwire.clock import Clock
from kwire.log import retention
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.producer_entry import ProducerEntry
from kwire.log.producer_snapshot import snapshot_offsets
from kwire.log.retention import remove_doomed
from kwire.record.compression import Compression
from kwire.record.records import BatchBuilder
from tests.support.log_state import (
    base_offsets,
    known_producers,
    leader_epochs,
    log_files,
    segment_sizes,
)
from tests.support.old_segments import delete_old_segments
from tests.support.time_lookups import max_timestamp, offset_for_timestamp

DAY_MS = 86_400_000


def append_times(tools, log, times, compression=0):
    """One batch with a record for each time, which need not ascend."""
    builder = BatchBuilder()
    for time in times:
        builder.add(tools.now_ms + time, b"k", b"v" * 20)
    log.append(builder.build(compression=compression), leader_epoch=2, now_ms=tools.now_ms)


@pytest.mark.parametrize("compression", list(Compression))
def test_the_first_record_with_at_least_the_time_is_found(tools, compression):
    """Inside batches, with times out of order, over segments: the same as by brute force."""
    log = tools.open(segment_bytes=1500, index_interval_bytes=100)
    times = [(n * 37) % 101 + n // 2 for n in range(240)]
    for start in range(0, len(times), 6):
        append_times(tools, log, times[start : start + 6], compression)
    for start_offset in (0, 100):
        log.advance_log_start_offset(start_offset)
        for wanted in range(-1, max(times) + 2, 3):
            expected = next(
                (n for n, time in enumerate(times) if n >= start_offset and time >= wanted), None
            )
            found = offset_for_timestamp(log, tools.now_ms + wanted, end_offset=240)
            assert (None if found is None else found.offset) == expected
            if found is not None:
                assert found.timestamp == tools.now_ms + times[found.offset]
                assert found.leader_epoch == 2
        largest = max_timestamp(log)
        newest = max(times[start_offset:])
        assert largest is not None
        assert largest.timestamp == tools.now_ms + newest
        assert largest.offset == times.index(newest, start_offset)


def test_times_beyond_the_end_offset_are_not_found(tools):
    """What the isolation level hides has no time."""
    log = tools.open()
    append_times(tools, log, [1, 2, 3])
    append_times(tools, log, [9])
    assert offset_for_timestamp(log, tools.now_ms + 9, end_offset=3) is None
    assert offset_for_timestamp(log, tools.now_ms + 9, end_offset=4).offset == 3


def test_the_largest_time_may_lie_before_the_log_start_offset(tools):
    """Then the largest of those that are left counts."""
    log = tools.open()
    append_times(tools, log, [90, 3, 7, 7])
    append_times(tools, log, [5])
    log.advance_log_start_offset(1)
    assert max_timestamp(log)[:2] == (2, tools.now_ms + 7)


def test_an_empty_log_has_no_times(tools):
    """Nor has one whose records have none."""
    log = tools.open()
    assert max_timestamp(log) is None
    assert offset_for_timestamp(log, 0, end_offset=0) is None
    tools.append(log, b"a", timestamp=-1)
    assert offset_for_timestamp(log, 0, end_offset=1) is None
    assert max_timestamp(log) is None


def days(tools, log, count):
    """A segment for each day."""
    for day in range(count):
        tools.append(log, b"x" * 100, timestamp=tools.now_ms - (count - 1 - day) * DAY_MS)
        if day < count - 1:
            log.roll(tools.now_ms)


def test_retention_by_time(tools):
    """retention.ms by the newest record of a segment; the active one goes as well in the end."""
    log = tools.open(retention_ms=3 * DAY_MS)
    days(tools, log, 8)
    assert delete_old_segments(log, tools.now_ms, 8, tools.disk, tools.now_ms) == 4
    assert log.log_start_offset == 4
    assert [offset for offset, _ in tools.values(log)] == [4, 5, 6, 7]
    assert delete_old_segments(log, tools.now_ms + 9 * DAY_MS, 8, tools.disk, tools.now_ms) == 4
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (8, 8, 0)
    assert delete_old_segments(log, tools.now_ms + 99 * DAY_MS, 8, tools.disk, tools.now_ms) == 0
    assert tools.append(log, b"a") == 8


def steps_of(tools, log, high_watermark):
    """Retention of one log a day later."""

    def late_ms():
        return tools.now_ms + DAY_MS

    clocks = retention.Clocks(late_ms, lambda: tools.now_ms, lambda: lambda _: 0)
    return retention.delete_old_segments(log, clocks, high_watermark, tools.disk)


def test_others_have_their_turns_between_two_segments(tools):
    """Whoever deletes the log or cuts it between two segments keeps what is left of it."""
    log = tools.open(retention_ms=0)
    days(tools, log, 8)
    steps = steps_of(tools, log, lambda: 8)
    assert [len(base_offsets(log)) for _ in zip(range(3), steps, strict=False)] == [7, 6, 5]
    log.is_being_cut = True
    assert list(steps) == []
    assert len(base_offsets(log)) == 5


def test_a_watermark_that_falls_between_two_segments_counts(tools):
    """A follower may have cut its log meanwhile, and what it has now isn't committed yet."""
    log = tools.open(retention_ms=0)
    days(tools, log, 8)
    watermarks = iter([8, 8, 2])
    steps = steps_of(tools, log, lambda: next(watermarks))
    assert (len(list(steps)), log.log_start_offset) == (2, 2)


def test_no_snapshot_is_removed_on_the_event_loop(tools, monkeypatch):
    """To remove a file may take a millisecond, and each deleted segment has one."""
    log = tools.open(retention_ms=0)
    days(tools, log, 8)
    snapshots = len(list(tools.directory.glob("*.snapshot")))
    assert snapshots == 7
    removed = []
    monkeypatch.setattr(tools.disk, "remove", removed.append)
    assert len(list(steps_of(tools, log, lambda: 8))) == 8
    assert removed == [] or all(path.suffix != ".snapshot" for path in removed)
    monkeypatch.undo()
    remove_doomed(log, tools.now_ms + DAY_MS, tools.disk)
    assert [path.name for path in tools.directory.glob("*.snapshot")] == [f"{8:020d}.snapshot"]


def test_many_producers_take_several_turns(tools):
    """A turn forgets the producers of some logs, as many as take about a millisecond."""
    logs = {("t", index): tools.open() for index in range(4)}
    for log in logs.values():
        for producer_id in range(retention.PRODUCERS_AT_ONCE):
            known_producers(log)[producer_id] = ProducerEntry(producer_id, 0)
    clocks = retention.Clocks(lambda: tools.now_ms, lambda: tools.now_ms, lambda: lambda _: 1 << 60)
    steps = retention.apply_retention(logs, clocks, lambda _: 0, tools.disk)
    left = [sum(len(known_producers(log)) for log in set(logs.values())) for _ in steps]
    assert [before - after for before, after in pairwise(left)] == [retention.PRODUCERS_AT_ONCE] * 3


def test_a_date_that_is_set_back_during_retention_makes_no_producer_old(tools):
    """Retention takes minutes, and a producer that writes meanwhile has the new date."""
    times = [tools.now_ms, 0]
    clock = Clock(lambda: times[0], lambda: times[1])
    log = tools.open(retention_ms=0, producer_id_expiration_ms=DAY_MS)
    days(tools, log, 3)
    clocks = retention.Clocks(clock.now_ms, clock.steady_ms, clock.ages)
    times[0] += 1
    steps = retention.apply_retention({("t", 0): log}, clocks, lambda _: 3, tools.disk)
    assert next(step for step in steps if step) == 1
    times[0] -= DAY_MS
    known_producers(log)[7] = ProducerEntry(7, 0)
    known_producers(log)[7].timestamp = times[0]
    list(steps)
    assert 7 in known_producers(log)
    times[0], times[1] = times[0] + DAY_MS, times[1] + DAY_MS
    list(retention.apply_retention({("t", 0): log}, clocks, lambda _: 3, tools.disk))
    assert 7 not in known_producers(log)


def test_retention_by_size(tools):
    """retention.bytes: a segment goes when the rest still is that large."""
    log = tools.open(retention_bytes=400)
    days(tools, log, 6)
    one = segment_sizes(log)[0]
    assert delete_old_segments(log, tools.now_ms, 6, tools.disk, tools.now_ms) == 6 - -(-400 // one)
    assert log.size_bytes >= 400


def test_nothing_beyond_the_high_watermark_is_deleted(tools):
    """What is not committed may still be needed."""
    log = tools.open(retention_ms=0)
    days(tools, log, 6)
    assert delete_old_segments(log, tools.now_ms + DAY_MS, 3, tools.disk, tools.now_ms) == 3
    assert log.log_start_offset == 3


def test_what_is_before_the_log_start_is_deleted_without_a_known_high_watermark(tools):
    """It was replicated: a log start offset never passes the high watermark."""
    log = tools.open(retention_ms=0)
    days(tools, log, 6)
    log.advance_log_start_offset(2)
    assert delete_old_segments(log, tools.now_ms + DAY_MS, 0, tools.disk, tools.now_ms) == 2
    assert (log.log_start_offset, base_offsets(log)[0]) == (2, 2)


def test_delete_records_frees_whole_segments_whatever_the_policy(tools):
    """Segments wholly before the log start offset go, on compacted topics too."""
    log = tools.open(delete=False, compact=True, retention_ms=0)
    days(tools, log, 5)
    log.advance_log_start_offset(3)
    assert delete_old_segments(log, tools.now_ms, 5, tools.disk, tools.now_ms) == 3
    assert (log.log_start_offset, base_offsets(log)[0]) == (3, 3)
    assert leader_epochs(log) == [(0, 3)]


def test_records_without_a_timestamp_age_with_their_file(tools):
    """LogSegment.largestTimestamp: the file's time where no record has one."""
    log = tools.open(retention_ms=DAY_MS)
    tools.append(log, b"a", timestamp=-1)
    path = log_files(log)[-1]
    os.utime(path, (tools.now_ms / 1000, tools.now_ms / 1000))
    assert delete_old_segments(log, tools.now_ms + DAY_MS, 1, tools.disk, tools.now_ms) == 0
    assert delete_old_segments(log, tools.now_ms + DAY_MS + 1000, 1, tools.disk, tools.now_ms) == 1


def test_files_are_renamed_first_and_removed_later(tools):
    """file.delete.delay.ms; snapshots that no segment needs go with them."""
    log = tools.open(retention_ms=3 * DAY_MS, file_delete_delay_ms=60_000)
    days(tools, log, 6)
    delete_old_segments(log, tools.now_ms, 6, tools.disk, tools.now_ms)
    deleted = sorted(path.name for path in tools.directory.glob("*.deleted"))
    assert f"{0:020d}.log.deleted" in deleted
    remove_doomed(log, tools.now_ms + 59_999, tools.disk)
    assert sorted(path.name for path in tools.directory.glob("*.deleted")) == deleted
    remove_doomed(log, tools.now_ms + 60_000, tools.disk)
    assert not list(tools.directory.glob("*.deleted"))
    assert not (tools.directory / f"{1:020d}.snapshot").exists()


@pytest.mark.parametrize("after", [0, -1])
def test_a_new_topic_of_the_same_name_keeps_its_files(tools, monkeypatch, after):
    """The old one is deleted after a thread has removed the first, or the last, of its files."""
    root = tools.root / "data"
    manager = LogManager.open([root], node_id=1, now_ms=tools.now_ms, disk=tools.disk)
    config = LogConfig(retention_ms=0, file_delete_delay_ms=0)
    old = manager.get_or_create("t", 0, tools.topic_id, config, tools.now_ms)
    days(tools, old, 4)
    assert delete_old_segments(old, tools.now_ms + DAY_MS, 2, tools.disk, 0) == 2
    doomed = [path for _, paths in old.doomed for path in paths]
    remove = tools.disk.remove

    def remove_and_make_anew(path):
        remove(path)
        if path == doomed[after] and not old.is_abandoned:
            manager.delete("t", 0, 0)
            new = manager.get_or_create("t", 0, bytes([7] * 16), config, tools.now_ms)
            days(tools, new, 2)
            assert delete_old_segments(new, tools.now_ms + DAY_MS, 1, tools.disk, 0) == 1

    monkeypatch.setattr(tools.disk, "remove", remove_and_make_anew)
    remove_doomed(old, tools.now_ms, tools.disk)
    new = manager.logs["t", 0]
    assert new is not old
    assert snapshot_offsets(new.directory, tools.disk) == [1]
    assert all(path.exists() for _, paths in new.doomed for path in paths)
    manager.close(tools.now_ms, clean=False)


def test_a_log_start_offset_inside_a_segment_hides_what_is_before(tools):
    """Also from times and after a restart."""
    log = tools.open()
    append_times(tools, log, [0, 1, 2, 3])
    log.advance_log_start_offset(2)
    assert [offset for offset, _ in tools.values(log)] == [2, 3]
    assert offset_for_timestamp(log, tools.now_ms, end_offset=4).offset == 2
    log.close(tools.now_ms)
    log = tools.open(log_start_offset=2)
    assert [offset for offset, _ in tools.values(log)] == [2, 3]
