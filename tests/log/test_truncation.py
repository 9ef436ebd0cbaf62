"""Truncating logs as a follower does; see also test_partition_log.py."""

import errno
import os

import pytest

from kwire.errors import ErrorCode
from kwire.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.recovery import open_log
from kwire.log.truncation import Cut, start_at, truncate_log, truncate_logs
from tests.support.log_scan import check_log
from tests.support.log_state import base_offsets, known_producers, leader_epochs, log_files


def open_manager(tools):
    """A manager of one directory."""
    return LogManager.open([tools.root / "data"], node_id=1, now_ms=tools.now_ms, disk=tools.disk)


def open_with(tools, *, may_lack_records):
    """The log of ``tools`` after the end of its process."""
    return open_log(
        tools.directory,
        "t",
        0,
        LogConfig(),
        disk=tools.disk,
        now_ms=tools.now_ms,
        clean=False,
        may_lack_records=may_lack_records,
    )


@pytest.fixture
def manager(tools):
    """A manager with the logs of t-0 and t-1, twenty records in each, all on the disk."""
    opened = open_manager(tools)
    for index in (0, 1):
        log = opened.get_or_create("t", index, tools.topic_id, LogConfig(), tools.now_ms)
        for number in range(20):
            log.append(
                tools.batch(b"v", producer=(3, 0, number)),
                leader_epoch=number // 10,
                now_ms=tools.now_ms,
            )
        log.flush(0)
    opened.checkpoint(dict)
    yield opened
    opened.close(tools.now_ms, clean=False)


@pytest.fixture
def open_again(tools, manager):
    """Opens a manager after the end of one; those that are open are closed in the end."""
    opened = []

    def open_next():
        opened.append(open_manager(tools))
        return opened[-1]

    yield open_next
    for one in opened:
        one.close(tools.now_ms, clean=False)


def test_several_logs_are_cut_with_one_checkpoint(tools, manager):
    """The recovery points of both are on the disk before the next append."""
    first, second = manager.logs["t", 0], manager.logs["t", 1]
    written = tools.disk.calls
    assert truncate_logs(manager, [Cut(first, 15), Cut(second, 5)], 0, 0) == [None, None]
    path = tools.root / "data" / RECOVERY_POINTS
    assert read_offsets(path, tools.disk) == {("t", 0): 14, ("t", 1): 4}
    assert leader_epochs(first) == [(0, 0), (1, 10)]
    assert leader_epochs(second) == [(0, 0)]
    assert (second.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert tools.disk.calls > written
    for log in (first, second):
        check_log(log)


def test_no_high_watermark_on_the_disk_lies_beyond_a_cut(tools, manager, open_again):
    """Or after a crash the next start takes records for replicated that were written since."""
    log = manager.logs["t", 0]
    manager.checkpoint(lambda: {("t", 0): 20, ("t", 1): 20})
    truncate_logs(manager, [Cut(log, 5)], 0, 0)
    path = tools.root / "data" / HIGH_WATERMARKS
    assert read_offsets(path, tools.disk) == {("t", 0): 5, ("t", 1): 20}
    tools.append(log, b"new")
    manager.close(tools.now_ms, clean=False)
    manager = open_again()
    reopened = manager.logs["t", 0]
    assert (manager.high_watermark_before(reopened), reopened.log_end_offset) == (5, 6)


def test_no_high_watermark_on_the_disk_lies_beyond_a_log_that_lost_its_end(
    tools, manager, open_again, monkeypatch
):
    """The power was cut: what is appended next isn't replicated, also if the power is cut again."""
    log = manager.logs["t", 0]
    manager.checkpoint(lambda: {("t", 0): 20, ("t", 1): 20})
    manager.close(tools.now_ms, clean=False)
    os.truncate(log_files(log)[-1], 0)
    monkeypatch.setattr(tools.disk, "boot_id", lambda: "another boot")
    manager = open_again()
    path = tools.root / "data" / HIGH_WATERMARKS
    assert read_offsets(path, tools.disk) == {("t", 0): 0, ("t", 1): 20}
    assert manager.high_watermark_before(manager.logs["t", 0]) == 0


@pytest.mark.parametrize("refused", [RECOVERY_POINTS, HIGH_WATERMARKS])
def test_a_log_whose_cut_is_not_noted_takes_no_records(tools, manager, monkeypatch, refused):
    """Or they would be taken for replicated, or for synced, after a crash."""
    log = manager.logs["t", 0]
    manager.checkpoint(lambda: {("t", 0): 20, ("t", 1): 20})
    write_atomically = tools.disk.write_atomically

    def full(path, content, *, durable=True):
        if path.name == refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_atomically(path, content, durable=durable)

    monkeypatch.setattr(tools.disk, "write_atomically", full)
    first, second = truncate_logs(manager, [Cut(log, 5), Cut(manager.logs["t", 1], 20)], 0, 0)
    assert first.code is second.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline
    [why] = manager.failures.values()
    assert os.strerror(errno.ENOSPC) in why


def test_a_full_disk_takes_no_cut_and_stays_online(tools, manager, monkeypatch):
    """The log is as before, so its leader asks for the cut again when there is room."""
    log = manager.logs["t", 0]
    free_bytes = tools.disk.free_bytes
    monkeypatch.setattr(tools.disk, "free_bytes", lambda path: 999_999)
    [error] = truncate_logs(manager, [Cut(log, 5)], 0, 0)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_end_offset, log.is_offline, log.health.is_full) == (20, False, True)
    monkeypatch.setattr(tools.disk, "free_bytes", free_bytes)
    assert truncate_logs(manager, [Cut(log, 5)], 0, 0) == [None]
    assert log.log_end_offset == 5


def test_a_directory_that_is_offline_takes_no_cut(tools, manager):
    """Its checkpoints can't follow."""
    log = manager.logs["t", 0]
    log.health.fail("the disk", OSError(errno.EIO, os.strerror(errno.EIO)))
    [error] = truncate_logs(manager, [Cut(log, 5)], 0, 0)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == 20


def test_a_start_notes_a_cut_that_the_end_of_the_process_interrupted(tools, manager, open_again):
    """The log was cut, the checkpoints weren't written: what comes next isn't what they know."""
    manager.note_boot()  # the machine goes on: no record can be lost
    log = manager.logs["t", 0]
    log.roll(tools.now_ms)
    log.flush(0)
    manager.checkpoint(lambda: {("t", 0): 20, ("t", 1): 20})
    root = tools.root / "data"
    assert read_offsets(root / RECOVERY_POINTS, tools.disk)["t", 0] == 20
    truncate_log(log, 5, tools.now_ms, tools.disk, 0)
    manager.close(tools.now_ms, clean=False)
    manager = open_again()
    assert read_offsets(root / RECOVERY_POINTS, tools.disk)["t", 0] <= 5
    assert read_offsets(root / HIGH_WATERMARKS, tools.disk) == {("t", 0): 5, ("t", 1): 20}
    assert manager.high_watermark_before(manager.logs["t", 0]) == 5


def test_a_cut_at_the_end_forgets_an_epoch_without_records(tools):
    """A leader that wrote nothing had it; its successor doesn't know it, and asks for this cut."""
    log = tools.open()
    tools.append(log, b"v")
    log.leader_epochs.assign(4, 1)
    truncate_log(log, 1, tools.now_ms, tools.disk, 0)
    assert leader_epochs(log) == [(0, 0)]
    assert log.log_end_offset == 1


def test_a_log_begins_anew(tools, manager, open_again):
    """At an offset before or after what it had: without records, epochs and producers."""
    for offset in (50, 7):
        log = manager.logs["t", 0]
        truncate_logs(manager, [Cut(log, offset, is_anew=True)], tools.now_ms, 0)
        assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (offset, offset, 0)
        assert leader_epochs(log) == []
        assert known_producers(log) == {}
        assert tools.append(log, b"new") == offset
        manager.close(tools.now_ms, clean=False)
        manager = open_again()
        log = manager.logs["t", 0]
        assert (log.log_start_offset, log.log_end_offset) == (offset, offset + 1)
        assert known_producers(log) == {}


def test_the_log_start_offset_goes_back_on_the_disk_too(tools, manager):
    """Or the next start would hide, or remove, what was replicated since."""
    log = manager.logs["t", 0]
    log.advance_log_start_offset(12)
    manager.checkpoint(dict)
    path = tools.root / "data" / LOG_START_OFFSETS
    assert read_offsets(path, tools.disk) == {("t", 0): 12}
    truncate_logs(manager, [Cut(log, 3, is_anew=True)], tools.now_ms, 0)
    assert read_offsets(path, tools.disk) == {}


def test_a_flush_that_began_before_a_cut_vouches_for_nothing(tools):
    """Other records may have taken the place of those that it has synced."""
    log = tools.open()
    for number in range(4):
        tools.append(log, b"%d" % number)
    flushing = log.flushing(0)
    next(flushing)
    start_at(log, 0, tools.now_ms, tools.disk, 0)
    for number in range(4):
        tools.append(log, b"new %d" % number)
    with pytest.raises(StopIteration):
        flushing.send(None)
    assert log.recovery_point == 0


def test_a_gap_after_a_power_cut_is_where_a_follower_goes_on(tools):
    """The end of an unsynced segment is missing at a batch's boundary; the later ones are there."""
    log = tools.open(segment_bytes=300)
    for number in range(12):
        tools.append(log, b"%d" % number * 60)
    bases = base_offsets(log)
    assert len(bases) > 3
    torn = log.segments[1]
    lost = list(torn.headers())[-1]
    log.abandon()
    path = torn.path(".log")
    path.write_bytes(path.read_bytes()[: lost.position])
    again = open_with(tools, may_lack_records=True)
    assert again.log_end_offset == 12
    assert again.gap_at == lost.base_offset
    truncate_log(again, again.gap_at, tools.now_ms, tools.disk, 0)
    assert (again.log_end_offset, again.gap_at) == (lost.base_offset, -1)
    check_log(again)


def test_a_gap_without_a_power_cut_is_compactions(tools):
    """A process that died lost nothing: what is missing had been removed before."""
    log = tools.open(segment_bytes=300)
    for number in range(12):
        tools.append(log, b"%d" % number * 60)
    lost = list(log.segments[1].headers())[-1]
    path = log_files(log)[1]
    log.abandon()
    path.write_bytes(path.read_bytes()[: lost.position])
    assert open_with(tools, may_lack_records=False).gap_at == -1
