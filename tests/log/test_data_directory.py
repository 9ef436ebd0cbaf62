"""Data directories: nobody else writes to them, and their checkpoints never go back."""

import subprocess
import sys
import threading

import pytest

from kwire.log.checkpoints import LOG_START_OFFSETS, read_offsets
from kwire.log.data_directory import LOCK_FILE, DataDirectory, LogDirectoryError
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager

LOCK_AS_A_JVM_DOES = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("refused", flush=True)
    else:
        print("locked", flush=True)
        sys.stdin.read()
"""


class SlowDisk(Disk):
    """A disk that lets the first replacement of a file wait when it is told to."""

    def __init__(self) -> None:
        self.is_slow = False
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def write_atomically(self, path, content, *, durable=True):
        """Replace a file, later for the one who comes first."""
        if self.is_slow:
            self.is_slow = False
            self.waits.set()
            assert self.go_on.wait(10)
        super().write_atomically(path, content, durable=False)


def jvm(path):
    """A process that locks a directory as Apache Kafka does."""
    command = [sys.executable, "-c", LOCK_AS_A_JVM_DOES, path / LOCK_FILE]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_jvm_cannot_open_what_is_open_here_nor_the_other_way_round(tmp_path):
    data = DataDirectory(tmp_path, Disk())
    with jvm(tmp_path) as process:
        assert process.communicate()[0] == "refused\n"
    data.close(clean=False)
    with jvm(tmp_path) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(LogDirectoryError, match="in use by another process"):
            DataDirectory(tmp_path, Disk())
        process.communicate()


def test_a_slow_checkpoint_never_replaces_a_newer_one(tools, tmp_path):
    disk = SlowDisk()
    manager = LogManager.open([tmp_path], node_id=1, now_ms=tools.now_ms, disk=disk)
    log = manager.get_or_create("t", 0, tools.topic_id, LogConfig(), tools.now_ms)
    for value in (b"a", b"b", b"c"):
        tools.append(log, value)
    log.advance_log_start_offset(1)
    disk.is_slow = True
    older = threading.Thread(target=manager.checkpoint, args=({},))
    older.start()
    assert disk.waits.wait(10)
    log.advance_log_start_offset(2)
    newer = threading.Thread(target=manager.checkpoint, args=({},))
    newer.start()
    newer.join(0.05)
    disk.go_on.set()
    older.join()
    newer.join()
    assert read_offsets(tmp_path / LOG_START_OFFSETS, disk) == {("t", 0): 2}
    manager.close(tools.now_ms, clean=False)
