"""Only so many files of the logs are open at a time, and nobody notices."""

import errno
import os

import pytest

from kwire.log.data_directory import LogDirectoryError
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.truncation import truncate_log
from kwire.record.batch import complete_batches
from kwire.record.records import records
from tests.log.conftest import NOW_MS, LogTools


class CountingDisk(Disk):
    """A disk that knows how many files are open, and can run out of descriptors."""

    def __init__(self, max_open_files: int) -> None:
        self.max_open_files = max_open_files
        self.opened: set[int] = set()
        self.most = 0
        self.descriptors = 10_000

    def open(self, path, *, create=False):
        """Open, or fail as a process does that has no descriptor left."""
        if len(self.opened) >= self.descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        fd = super().open(path, create=create)
        self.opened.add(fd)
        self.most = max(self.most, len(self.opened))
        return fd

    def close(self, fd):
        """Close."""
        self.opened.remove(fd)
        super().close(fd)

    def sync(self, fd):
        """Nothing: no machine dies here."""


def filled_manager(tools, tmp_path, disk, partitions):
    """A manager with partitions that have a batch each."""
    manager = LogManager.open([tmp_path], node_id=1, now_ms=NOW_MS, disk=disk)
    for partition in range(partitions):
        log = manager.get_or_create("t", partition, bytes(15) + b"1", LogConfig(), NOW_MS)
        log.append(tools.batch(b"%d" % partition), leader_epoch=0, now_ms=NOW_MS)
    return manager


def values(manager):
    """What every partition holds."""
    return {
        partition: [
            record.value
            for batch in complete_batches(LogTools.fetch(log, 0))
            for record in records(batch)
        ]
        for (_, partition), log in manager.logs.items()
    }


def test_the_limit_holds_whatever_the_number_of_partitions(tools, tmp_path):
    disk = CountingDisk(max_open_files=8)
    manager = filled_manager(tools, tmp_path, disk, 50)
    assert values(manager) == {n: [b"%d" % n] for n in range(50)}
    assert disk.most <= 8 + 2  # and the lock, and the one that is read
    manager.close(NOW_MS)
    assert not disk.opened


def test_a_process_without_descriptors_closes_files(tools, tmp_path):
    disk = CountingDisk(max_open_files=1000)
    disk.descriptors = 20
    manager = filled_manager(tools, tmp_path, disk, 50)
    assert values(manager) == {n: [b"%d" % n] for n in range(50)}
    for log in manager.logs.values():
        log.flush(NOW_MS)
    assert manager.checkpoint(dict)
    manager.close(NOW_MS)


def test_running_out_of_descriptors_is_an_error_where_nothing_can_be_closed(tools, tmp_path):
    disk = CountingDisk(max_open_files=1000)
    disk.descriptors = 0
    with pytest.raises(LogDirectoryError, match="Too many open files"):
        filled_manager(tools, tmp_path, disk, 1)


def test_a_file_that_is_held_stays_open_when_its_place_is_taken(tools, tmp_path):
    disk = CountingDisk(max_open_files=2)
    manager = filled_manager(tools, tmp_path, disk, 10)
    log = manager.logs["t", 0]
    piece = log.read(0, 1000, end_offset=1, min_one_batch=True)
    assert piece is not None
    values(manager)
    assert piece.fd in disk.opened
    data = os.pread(piece.fd, piece.size_bytes, piece.position)
    assert len(data) == piece.size_bytes
    fd = piece.fd
    del piece
    assert fd not in disk.opened
    manager.close(NOW_MS)


def test_a_file_used_lately_is_kept(tools, tmp_path):
    disk = CountingDisk(max_open_files=3)
    manager = filled_manager(tools, tmp_path, disk, 10)

    def read(partition):
        piece = manager.logs["t", partition].read(0, 1000, end_offset=1, min_one_batch=True)
        return piece.fd

    fd = read(0)
    for partition in range(1, 10):
        read(0)
        read(partition)
    assert read(0) == fd
    manager.close(NOW_MS)


class GreedyDisk(CountingDisk):
    """A disk on which another thread needs all the room before every call."""

    def _check(self, fd):
        self.open_files.close_all()
        assert fd in self.opened, "the file was closed in the middle of its use"

    def pread(self, fd, size_bytes, position):
        """Read."""
        self._check(fd)
        return super().pread(fd, size_bytes, position)

    def pwrite_all(self, fd, data, position):
        """Write."""
        self._check(fd)
        super().pwrite_all(fd, data, position)

    def size(self, fd):
        """Look at the size."""
        self._check(fd)
        return super().size(fd)

    def truncate(self, fd, size_bytes):
        """Cut."""
        self._check(fd)
        super().truncate(fd, size_bytes)


@pytest.mark.parametrize("clean", [True, False])
def test_a_file_stays_open_while_it_is_used(make_tools, tmp_path, clean):
    """Whoever needs room in another thread: else a write might go to another file."""
    tools = make_tools(tmp_path / "t")
    tools.disk = GreedyDisk(10)
    settings = {"segment_bytes": 1000, "index_interval_bytes": 100}
    log = tools.open(**settings)
    for number in range(30):
        tools.append(log, b"%d" % number + b"x" * 60)
    truncate_log(log, 29, tools.now_ms, tools.disk, 0)
    wanted = tools.values(log)
    if clean:
        log.close(tools.now_ms)
    log = tools.open(clean=clean, **settings)
    assert tools.values(log) == wanted
