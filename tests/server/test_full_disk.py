"""A start on a disk that is full: it says so, how much room it needs, and that nothing is lost."""

import errno
import os
import sqlite3
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.log.data_directory import LogDirectoryError
from kwire.log.directory_health import LEAST_ROOM_BYTES, DirectoryHealth
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.server import StartError
from kwire.testing.faulty_disk import FaultyDisk
from tests.log.conftest import NOW_MS, LogTools
from tests.support.in_process import running_server

# A limit of the process stands for the disk: SQLite's own calls fail as well.
SERVE_WITHOUT_ROOM = """
import resource, sys
from kwire.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.exit(main(["serve", "--listen", "127.0.0.1:0", "--data-dir", sys.argv[1]]))
"""


def serve_without_room(data_dir: Path) -> tuple[int, str]:
    """Start a process that can't write to any file: its exit code and what it says."""
    process = subprocess.run(
        [sys.executable, "-c", SERVE_WITHOUT_ROOM, str(data_dir)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return process.returncode, process.stderr


async def test_a_restart_without_room_for_the_metadata(tmp_path: Path) -> None:
    """One line; the files are as they were, and with room the next start goes well."""
    async with running_server(tmp_path) as running:
        cluster_id = running.broker.cluster_id
    before = (tmp_path / "kwire-metadata.db").read_bytes()
    code, told = serve_without_room(tmp_path)
    assert code == 1
    assert told.count("\n") == 1, told
    assert f"there is no room in {tmp_path}" in told
    assert "make at least 1 MB free and start again" in told
    assert "nothing that was acknowledged is lost" in told
    assert "restore the file" not in told
    assert (tmp_path / "kwire-metadata.db").read_bytes() == before
    async with running_server(tmp_path) as running:
        assert running.broker.cluster_id == cluster_id


@pytest.mark.parametrize("is_full", [True, False])
async def test_a_start_that_cannot_write_metadata(tmp_path, monkeypatch, is_full) -> None:
    """The address of a broker may have changed: that is written at the start."""

    def refuse(*_: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Full(sqlite3.Cursor):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            if sql.startswith("INSERT"):
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *given)

    class FullDatabase(sqlite3.Connection):
        def cursor(self, *_: Any) -> sqlite3.Cursor:
            return super().cursor(Full)

    async with running_server(tmp_path):
        pass
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FullDatabase))
    if is_full:
        monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(ExceptionGroup) as caught:
        async with running_server(tmp_path, {"broker.rack": "another"}):
            pass
    [error] = caught.value.exceptions
    assert isinstance(error, StartError)
    assert str(tmp_path) in str(error)
    assert ("nothing that was acknowledged is lost" in str(error)) is is_full


def test_a_recovery_without_room(tmp_path: Path) -> None:
    """Indexes that have to be made anew don't fit: the log is as it was, and opens with room."""
    manager = LogManager.open([tmp_path], node_id=1, now_ms=NOW_MS)
    log = manager.get_or_create("t", 0, b"i" * 16, LogConfig(), NOW_MS)
    tools = LogTools(tmp_path)
    for _ in range(3):
        tools.append(log, b"v")
    manager.close(NOW_MS, clean=False)
    for path in (tmp_path / "t-0").glob("*index"):
        path.unlink()
    disk = FaultyDisk()
    disk.room_bytes = 0
    with pytest.raises(LogDirectoryError) as caught:
        LogManager.open([tmp_path], node_id=1, now_ms=NOW_MS, disk=disk)
    assert "No space left on device" in str(caught.value)
    assert "make at least 16 MB free and start again" in str(caught.value)
    assert "nothing that was acknowledged is lost" in str(caught.value)
    disk.room_bytes = None
    manager = LogManager.open([tmp_path], node_id=1, now_ms=NOW_MS, disk=disk)
    assert manager.logs["t", 0].log_end_offset == 3
    manager.close(NOW_MS)


def test_a_full_disk_nobody_writes_to_is_still_full(tmp_path: Path, caplog) -> None:
    """That nothing is refused means nothing while nobody asks: there has to be room as well."""
    health = DirectoryHealth(tmp_path)
    told = health.refused("cannot append", OSError(28, "No space left on device"))
    assert isinstance(told, KafkaError)
    assert told.code is ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(3):
        health.check_shortage(LEAST_ROOM_BYTES - 1)
    assert health.is_short_of_room
    assert "takes records again" not in caplog.text
    health.check_shortage(LEAST_ROOM_BYTES)
    assert not health.is_short_of_room
    assert "takes records again and has 1 MB of room" in caplog.text


def test_a_lack_of_descriptors_is_no_lack_of_room(tmp_path: Path) -> None:
    """It is over when nothing is refused any more, however full the disk is."""
    health = DirectoryHealth(tmp_path)
    health.refused("cannot append", OSError(24, "Too many open files"))
    health.check_shortage(0)
    assert health.is_short_of_room
    health.check_shortage(0)
    assert not health.is_short_of_room
