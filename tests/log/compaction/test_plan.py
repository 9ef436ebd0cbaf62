"""What is cleaned, when, and how far: ratios, lags, the checkpoint, the map that is full."""

import gc
import weakref
from dataclasses import replace

import pytest

from kwire.log.checkpoints import CLEANER_OFFSETS, read_offsets
from kwire.log.compaction.cleaner import group_segments
from kwire.log.compaction.job import SourceSegment
from kwire.log.compaction.manager import CompactionManager, CompactionSettings
from kwire.log.compaction.plan import log_to_clean
from kwire.log.log_config import LogConfig
from kwire.log.truncation import truncate_log
from tests.support.log_state import log_files, segment_sizes
from tests.support.old_segments import delete_old_segments


def fill(c, count, keys=2):
    """Write ``count`` records over and over the same keys."""
    for number in range(count):
        c.put(f"k{number % keys}", f"{number:04}")


def test_the_parts_of_a_log(compaction):
    """Sizes before the first dirty offset, up to the active segment, and what makes it worth it."""
    c = compaction(segment_bytes=200, min_cleanable_dirty_ratio=0.5)
    fill(c, 10)
    sizes = segment_sizes(c.log)
    bases = c.bases()
    part = log_to_clean(c.log, 10, c.now_ms)
    assert (part.first_dirty_offset, part.first_uncleanable_offset) == (0, bases[-1])
    assert (part.clean_bytes, part.cleanable_bytes) == (0, sum(sizes[:-1]))
    assert (part.dirty_ratio, part.is_worth_it) == (1.0, True)
    c.log.first_dirty_offset = bases[2]
    part = log_to_clean(c.log, 10, c.now_ms)
    assert (part.clean_bytes, part.cleanable_bytes) == (sum(sizes[:2]), sum(sizes[2:-1]))
    assert part.dirty_ratio == pytest.approx(part.cleanable_bytes / sum(sizes[:-1]))
    assert not log_to_clean(c.log, bases[2], c.now_ms).is_worth_it
    part = log_to_clean(c.log, bases[3] + 1, c.now_ms)
    assert part.first_uncleanable_offset == bases[3]
    assert part.cleanable_bytes == sizes[2]
    assert not part.is_worth_it


def test_an_empty_log_and_one_with_one_segment_are_left_alone(compaction):
    """There is nothing behind the active segment."""
    c = compaction(segment_bytes=10_000)
    assert c.next_clean() is None
    fill(c, 10)
    assert c.next_clean() is None
    assert log_to_clean(c.log, 10, c.now_ms).total_bytes == 0


def test_what_is_young_can_wait(compaction):
    """min.compaction.lag.ms goes by the newest record of a segment."""
    c = compaction(segment_bytes=200, min_compaction_lag_ms=1000)
    start = c.now_ms
    fill(c, 3)
    c.log.roll(c.now_ms)
    c.now_ms += 500
    fill(c, 3)
    c.log.roll(c.now_ms)
    middle = c.log.log_end_offset // 2
    c.now_ms = start + 999
    assert c.next_clean() is None
    c.now_ms = start + 1000
    assert c.compact(roll=False) is not None
    assert c.log.first_dirty_offset == middle
    c.now_ms = start + 1499
    assert c.next_clean() is None
    c.now_ms = start + 1500
    assert c.compact(roll=False) is not None
    assert c.log.first_dirty_offset == 6


def test_what_is_old_is_cleaned_whatever_the_ratio(compaction):
    """max.compaction.lag.ms goes by the first batch of a dirty segment (KIP-354)."""
    c = compaction(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
    fill(c, 4)
    assert c.compact() is None
    c.now_ms += 1000
    assert c.next_clean() is None
    c.now_ms += 1
    clean = c.next_clean()
    assert clean.part.overdue_ms == 1
    assert c.manager.metrics.max_compaction_delay_ms == 1


def test_only_compacted_logs_and_changes_of_the_policy_count_at_once(compaction):
    """cleanup.policy is looked at whenever a log is chosen."""
    c = compaction()
    fill(c, 4)
    c.log.roll(c.now_ms)
    c.log.update_config(LogConfig(compact=False))
    assert c.next_clean() is None
    assert c.manager.metrics.max_compaction_delay_ms == 0
    c.log.update_config(LogConfig(compact=True, delete=True))
    assert c.compact(roll=False) is not None
    assert len(c.contents()) == 2


def test_compact_and_delete_do_both(compaction):
    """Retention takes whole segments, whatever their keys."""
    c = compaction(delete=True, retention_ms=1000)
    fill(c, 6)
    assert c.compact() is not None
    c.now_ms += 1001
    c.put("k9", "x")
    c.log.roll(c.now_ms)
    assert delete_old_segments(c.log, c.now_ms, c.log.log_end_offset, c.tools.disk, c.now_ms) == 1
    assert c.log.log_start_offset == 6
    assert c.compact() is not None
    assert c.contents() == [(6, "k9", "x")]


def test_the_dirtiest_log_comes_first_and_one_at_a_time(compaction, make_tools, tmp_path):
    """By the share of what is dirty, not by the size; metrics tell the largest share."""
    c = compaction()
    fill(c, 20)
    c.log.roll(c.now_ms)
    c.log.first_dirty_offset = c.bases()[1]
    other = make_tools(tmp_path / "b")
    second = other.open(**c.settings)
    c.tools.append(second, b"x", keys=(b"k",))
    second.roll(c.now_ms)
    logs = {("t", 0): c.log, ("t", 1): second}
    manager = CompactionManager(logs, [tmp_path, tmp_path / "b"], c.tools.disk)

    def take():
        return manager.next_clean(lambda key: 100, CompactionSettings(), c.now_ms, c.now_ms)

    assert take().log is second
    assert manager.metrics.max_dirty_percent == 100
    assert take().log is c.log
    assert take() is None


def test_a_partition_that_isn_t_served_is_left_alone(compaction):
    """Nobody knows what of it is stable."""
    c = compaction()
    fill(c, 4)
    c.log.roll(c.now_ms)
    assert c.manager.next_clean(lambda key: None, CompactionSettings(), c.now_ms, c.now_ms) is None


@pytest.mark.parametrize("count", [4, 20])
def test_when_the_map_is_full_the_clean_goes_as_far_as_it_reaches(compaction, count):
    """And the next ones go on from there, until all is clean, whatever the number of keys."""
    c = compaction({"map_bytes": 24 * (count + 1), "map_load_factor": 0.999}, segment_bytes=400)
    fill(c, 60, keys=30)
    c.log.roll(c.now_ms)
    reached = 0
    cleans = 0
    while c.compact(roll=False) is not None:
        assert c.log.first_dirty_offset >= min(reached + count, 60)
        reached = c.log.first_dirty_offset
        cleans += 1
    assert reached == 60
    assert cleans >= 2
    assert c.contents() == [(30 + n, f"k{n}", f"{30 + n:04}") for n in range(30)]


def test_the_checkpoint_survives_a_restart(compaction):
    """In Kafka's file and format; a clean log isn't cleaned again."""
    c = compaction()
    fill(c, 10)
    assert c.compact() is not None
    assert (c.tools.root / CLEANER_OFFSETS).read_text() == "0\n1\nt 0 10\n"
    c.reopen()
    assert c.log.first_dirty_offset == 10
    assert c.next_clean() is None


def test_a_truncated_log_is_dirty_from_its_active_segment_on(compaction):
    """LogCleanerManager.maybeTruncateCheckpoint."""
    c = compaction(segment_bytes=200)
    for number in range(10):
        c.put(f"k{number}", "x")
    assert c.compact() is not None
    base = c.bases()[-2]
    truncate_log(c.log, base + 1, c.now_ms, c.tools.disk, c.now_ms)
    assert c.log.first_dirty_offset == base
    fill(c, 10)
    assert c.compact() is not None
    assert read_offsets(c.tools.root / CLEANER_OFFSETS, c.tools.disk) == {("t", 0): base + 11}


def test_a_first_dirty_offset_that_can_t_be_right_is_put_back(compaction, caplog):
    """Beyond the end, or before the start: all that is there is dirty."""
    c = compaction(segment_bytes=200)
    fill(c, 10)
    c.log.roll(c.now_ms)
    c.log.first_dirty_offset = 99
    assert log_to_clean(c.log, 10, c.now_ms).first_dirty_offset == 0
    assert "99 is not within 0 and 10" in caplog.text
    c.log.first_dirty_offset = 2
    c.log.advance_log_start_offset(5)
    assert log_to_clean(c.log, 10, c.now_ms).first_dirty_offset == 5
    assert c.log.first_dirty_offset == 5


def test_a_damaged_log_is_marked_and_reported_and_the_others_go_on(compaction, caplog):
    """Uncleanable until the next start; it serves on."""
    c = compaction(segment_bytes=200)
    fill(c, 10)
    c.log.roll(c.now_ms)
    path = log_files(c.log)[1]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert c.compact_failing() is not None
    assert list(c.manager.uncleanable) == [("t", 0)]
    assert c.manager.uncleanable_bytes() == c.log.size_bytes
    assert "t-0 can't be compacted" in caplog.text
    assert c.next_clean() is None
    assert not list(c.tools.directory.glob("*.cleaned"))
    assert c.put("a", "1") == 10


@pytest.mark.parametrize(
    ("segments", "wanted"),
    [
        ([(0, 9, 400), (9, 20, 300), (20, 30, 300), (30, 40, 100)], [[0, 9, 20], [30]]),
        ([(0, 9, 1001), (9, 20, 10)], [[0], [9]]),
        ([(0, 9, 10), (9, 20, 10), (20, 2**31, 10)], [[0, 9, 20]]),
        ([(0, 9, 10), (9, 20, 10), (20, 2**31 + 1, 10)], [[0, 9], [20]]),
        ([(0, 9, 10), (2**31, 2**31 + 5, 0)], [[0, 2**31]]),
        (
            [(0, 9, 999), (2**31, 2**31 + 5, 10), (2**31 + 5, 2**31 + 9, 10)],
            [[0], [2**31, 2**31 + 5]],
        ),
    ],
)
def test_small_segments_become_one(compaction, segments, wanted):
    """As large as a segment may be, and as far as an index reaches; one that is empty adds none."""
    c = compaction()
    fill(c, 4)
    c.log.roll(c.now_ms)
    job = replace(c.next_clean().job, segment_bytes=1000, index_bytes=100)
    found = group_segments([SourceSegment(*one, 0) for one in segments], job, lambda base: (8, 12))
    assert [[segment.base_offset for segment in group] for group in found] == wanted


@pytest.mark.parametrize("index", [0, 1])
def test_indexes_that_are_too_large_together_stay_apart(compaction, index):
    """An index that is full takes no more entries."""
    c = compaction()
    fill(c, 4)
    c.log.roll(c.now_ms)
    job = replace(c.next_clean().job, segment_bytes=1000, index_bytes=100)
    sizes = [(51, 0), (49, 0), (1, 0)]
    segments = [SourceSegment(number, number + 1, 10, 0) for number in range(3)]
    found = group_segments(segments, job, lambda base: sizes[base][:: 1 - 2 * index])
    assert [len(group) for group in found] == [2, 1]


def test_what_the_disk_refused_is_tried_again_later(compaction):
    """After one minute, two, four: a full disk isn't filled again and again."""
    c = compaction(segment_bytes=200)
    fill(c, 10)
    c.log.roll(c.now_ms)
    for wait_ms in (60_000, 120_000, 240_000):
        c.tools.disk.calls, c.tools.disk.fail_at = 0, 1
        assert c.compact_failing() is not None
        assert c.next_clean() is None
        c.now_ms += wait_ms - 1
        assert c.next_clean() is None
        c.now_ms += 1
    c.tools.disk.fail_at = -1
    assert c.compact(roll=False) is not None
    assert len(c.contents()) == 2


def test_a_log_that_was_deleted_after_a_failure_is_forgotten(compaction):
    """It would stay in memory, with its indexes, until the broker stops."""
    c = compaction(segment_bytes=200)
    fill(c, 10)
    c.log.roll(c.now_ms)
    c.tools.disk.calls, c.tools.disk.fail_at = 0, 1
    assert c.compact_failing() is not None
    deleted = weakref.ref(c.log)
    stable = c.log.log_end_offset
    c.logs.clear()
    del c.log
    assert deleted() is not None
    assert c.manager.next_clean(lambda key: stable, c.options, c.now_ms, c.now_ms) is None
    gc.collect()
    assert deleted() is None
