"""Syncs of many logs: at the same time, and each log with an error of its own."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.errors import KafkaError
from kwire.log import syncing
from kwire.log.checkpointed import offsets_of
from kwire.log.checkpoints import RECOVERY_POINTS
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.recovery import open_log
from kwire.log.segment import LogSegment
from kwire.log.syncing import FEW, SHORT_S, Syncing, sync_all
from tests.log.conftest import NOW_MS, LogTools
from tests.support.log_state import base_offsets, log_files

MEETING = 4
TIMEOUT_S = 20


class MeetingDisk(Disk):
    """A disk whose syncs wait for each other: one after the other they would never end."""

    def __init__(self) -> None:
        self.meeting = threading.Barrier(MEETING, timeout=TIMEOUT_S)
        self.is_meeting = False
        self.refused: set[Path] = set()

    def sync_path(self, path: Path) -> None:
        """Wait for other syncs, or fail."""
        if path.parent in self.refused:
            raise OSError(errno.EIO, "broken", str(path))
        if self.is_meeting:
            self.meeting.wait()


def manager_with_segments(tmp_path: Path, disk: Disk, partitions: int, segments: int) -> LogManager:
    """Logs whose rolled segments haven't been synced."""
    manager = LogManager.open([tmp_path / "data"], node_id=1, now_ms=NOW_MS, disk=disk)
    for index in range(partitions):
        log = manager.get_or_create("t", index, bytes(16), LogConfig(), NOW_MS)
        for number in range(segments):
            log.append(LogTools.batch(b"%d" % number), leader_epoch=0, now_ms=NOW_MS)
            log.roll(NOW_MS)
    return manager


def test_a_recovery_point_stays_in_the_first_segment_without_synced_indexes(
    tmp_path: Path,
) -> None:
    """However many segments are rolled while a flush waits for the disk."""
    manager = LogManager.open([tmp_path / "data"], node_id=1, now_ms=NOW_MS, disk=Disk())
    log = manager.get_or_create("t", 0, bytes(16), LogConfig(), NOW_MS)

    def append() -> None:
        log.append(LogTools.batch(b"x", b"y"), leader_epoch=0, now_ms=NOW_MS)

    append()
    flush = log.flushing(NOW_MS)
    next(flush)
    for _ in range(3):
        log.roll(NOW_MS)
        append()
    assert next(flush, None) is None
    assert (log.recovery_point, base_offsets(log)) == (2, [0, 2, 4, 6])
    assert offsets_of(RECOVERY_POINTS, lambda: {("t", 0): log}, dict) == {("t", 0): 1}
    manager.close(NOW_MS)


@pytest.mark.parametrize(("partitions", "segments"), [(8, 2), (1, 16)])
def test_a_stop_syncs_many_files_at_a_time(tmp_path: Path, partitions: int, segments: int) -> None:
    """Those of many logs, and those of one log with many segments."""
    disk = MeetingDisk()
    manager = manager_with_segments(tmp_path, disk, partitions, segments)
    disk.is_meeting = True
    manager.close(NOW_MS)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_flush_syncs_the_files_of_many_logs_at_a_time(tmp_path: Path) -> None:
    """Afterwards everything counts as on the disk."""
    disk = MeetingDisk()
    manager = manager_with_segments(tmp_path, disk, 8, 2)
    logs = list(manager.logs.values())
    disk.is_meeting = True
    assert sync_all([log.flushing(0) for log in logs]) == [None] * 8
    disk.is_meeting = False
    assert all(log.recovery_point == log.log_end_offset == 2 for log in logs)
    assert not any(log.flush_time_is_due(0) for log in logs)
    manager.close(NOW_MS)


def test_who_asks_for_no_threads_does_the_work_of_the_logs_itself() -> None:
    """However many logs there are."""
    seen: list[threading.Thread] = []

    def nothing_to_sync() -> Syncing:
        seen.append(threading.current_thread())
        yield from ()

    count = FEW + 1
    assert sync_all([nothing_to_sync() for _ in range(count)]) == [None] * count
    assert seen == [threading.current_thread()] * count


@pytest.mark.parametrize("segments", [1, FEW])
def test_a_failed_sync_is_the_error_of_its_own_log(tmp_path: Path, segments: int) -> None:
    """The other logs are on the disk, whether threads have synced them or not."""
    disk = MeetingDisk()
    logs = [
        open_log(tmp_path / name / "t-0", "t", 0, LogConfig(), disk=disk, now_ms=NOW_MS, clean=True)
        for name in "abc"
    ]
    for log in logs:
        for _ in range(segments):
            log.append(LogTools.batch(b"v"), leader_epoch=0, now_ms=NOW_MS)
            log.roll(NOW_MS)
    disk.refused = {logs[1].directory}
    first, second, third = sync_all([log.flushing(0) for log in logs])
    assert first is None
    assert third is None
    assert isinstance(second, KafkaError)
    assert [log.is_offline for log in logs] == [False, True, False]
    assert [log.recovery_point for log in logs] == [segments, 0, segments]


def test_a_log_that_is_deleted_meanwhile_is_no_error(tmp_path: Path, tools: LogTools) -> None:
    """Neither for itself nor for the logs beside it."""
    log = tools.open()
    tools.append(log, b"v")
    flushing = log.flushing(0)
    next(flushing)
    with pytest.raises(StopIteration):
        flushing.throw(FileNotFoundError(errno.ENOENT, "gone"))
    assert not log.is_offline


@pytest.mark.parametrize(("sync_s", "in_threads"), [(0.02, MEETING), (SHORT_S / 100, 0)])
def test_few_files_are_synced_in_threads_if_the_first_sync_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync_s: float, in_threads: int
) -> None:
    """A fast disk doesn't pay for threads, and on a slow one few files take little longer than one.

    The clock shows only what the syncs take. The syncs after the first one wait for each other.
    """
    disk = MeetingDisk()
    manager = manager_with_segments(tmp_path, disk, 1 + MEETING, 0)
    logs = list(manager.logs.values())
    assert sync_all([log.flushing(0) for log in logs]) == [None] * len(logs)
    for log in logs:
        log.append(LogTools.batch(b"v"), leader_epoch=0, now_ms=NOW_MS)
    now_s = 0.0
    threads: list[threading.Thread] = []

    def sync_path(path: Path) -> None:
        nonlocal now_s
        if in_threads and threads:
            disk.meeting.wait()
        now_s += sync_s
        threads.append(threading.current_thread())

    monkeypatch.setattr(syncing, "perf_counter", lambda: now_s)
    monkeypatch.setattr(disk, "sync_path", sync_path)
    assert sync_all([log.flushing(0) for log in logs]) == [None] * len(logs)
    assert len(threads) == len(logs)
    assert len({*threads}) == max(in_threads, 1)
    manager.close(NOW_MS)


def test_the_log_of_a_lost_page_is_offline_before_the_other_syncs_end(tmp_path: Path) -> None:
    """A lost page is reported once: a second sync of the file must not acknowledge its records."""
    disk = Disk()
    manager = manager_with_segments(tmp_path, disk, 2, 1)
    lost, slow = manager.logs["t", 0], manager.logs["t", 1]
    segment = log_files(lost)[0]
    seconds: list[str] = []

    def sync_path(path: Path) -> None:
        if path == segment and not seconds:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        if path.parent == slow.directory and not seconds:
            seconds.append("begun")
            with pytest.raises(KafkaError):
                lost.flush_rolled()

    disk.sync_path = sync_path  # type: ignore[method-assign]
    first, second = sync_all([lost.flushing(0), slow.flushing(0)])
    assert seconds == ["begun"]
    assert isinstance(first, KafkaError)
    assert isinstance(second, KafkaError)  # both are in the directory that is offline
    assert lost.recovery_point == slow.recovery_point == 0


def test_a_segment_that_is_rolled_while_a_flush_begins_is_synced_with_its_indexes(
    tmp_path: Path,
) -> None:
    """The flush takes the segment for the active one, and finds it among the rolled ones too."""
    synced: set[Path] = set()

    class Noting(Disk):
        def sync_path(self, path: Path) -> None:
            synced.add(path)

    manager = manager_with_segments(tmp_path, Noting(), 1, 0)
    log = manager.logs["t", 0]
    log.append(LogTools.batch(b"v"), leader_epoch=0, now_ms=NOW_MS)

    class RolledMeanwhile(list[LogSegment]):
        """The loop rolls the segment when a thread has read which one is active."""

        def __iter__(self) -> Iterator[LogSegment]:
            if len(base_offsets(log)) == 1:
                log.roll(NOW_MS)
            return super().__iter__()

    log.unflushed = RolledMeanwhile()
    log.flush(0)
    assert base_offsets(log) == [0, 1]
    files = {log_files(log)[0].with_suffix(one) for one in (".log", ".index", ".timeindex")}
    assert files <= synced
    assert not log.flush_time_is_due(0)
    manager.close(NOW_MS)


class ScarceDisk(Disk):
    """A disk that loses pages of one file, and has no descriptor left for another."""

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}

    def sync_path(self, path: Path) -> None:
        """Fail once for each of these files, as the system reports lost pages only once."""
        error = self.errors.pop(path.name, None)
        if error is not None:
            raise OSError(error, os.strerror(error), str(path))


@pytest.mark.parametrize("lost", [errno.EIO, errno.ENOSPC])
def test_lost_pages_are_noticed_beside_a_lack_of_descriptors(tmp_path: Path, lost: int) -> None:
    """Otherwise the next flush, which succeeds, would acknowledge records that are lost."""
    disk = ScarceDisk()
    log = open_log(tmp_path / "t-0", "t", 0, LogConfig(), disk=disk, now_ms=NOW_MS, clean=True)
    log.append(LogTools.batch(b"v"), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.append(LogTools.batch(b"v"), leader_epoch=0, now_ms=NOW_MS)
    rolled, active = (segment.files()[0].name for segment in log.segments)
    disk.errors = {rolled: errno.EMFILE, active: lost}
    with pytest.raises(KafkaError):
        log.flush(0)
    assert log.is_offline
