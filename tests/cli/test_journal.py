"""systemd's journal gets the priority of each log line, and nobody else sees it."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.cli.journal import PriorityFormatter
from kwire.cli.log_lines import LineFormatter


def _logged(tmp_path: Path, *, in_journal: bool) -> list[str]:
    """What a broker logs that SIGHUP stops: a warning, then the line of a clean stop."""
    reader, writer = os.pipe()
    status = os.fstat(writer)
    inode = status.st_ino if in_journal else status.st_ino + 1
    with (
        open(reader, encoding="utf-8") as log,
        subprocess.Popen(
            [sys.executable, "-m", "kwire", "serve", "--data-dir", "d", "--listen", "127.0.0.1:0"],
            env=os.environ
            | {
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "JOURNAL_STREAM": f"{status.st_dev}:{inode}",
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=writer,
            text=True,
        ) as process,
    ):
        os.close(writer)
        assert process.stdout is not None
        assert " ready: " in process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        lines = log.read().splitlines()
    assert process.returncode == 0
    return lines


@pytest.mark.usefixtures("hangups_count")
def test_the_journal_gets_priorities(tmp_path: Path) -> None:
    """`journalctl -p warning` finds the warning, and leaves out the line of a clean stop."""
    warning, end = _logged(tmp_path, in_journal=True)
    assert warning.startswith("<4>")
    assert "stopping" in warning
    assert end.startswith("<6>")
    assert "stopped cleanly" in end


@pytest.mark.usefixtures("hangups_count")
def test_other_readers_of_standard_error_see_no_priorities(tmp_path: Path) -> None:
    """A broker may inherit the variable from a service that runs it with another output."""
    lines = _logged(tmp_path, in_journal=False)
    assert len(lines) == 2
    assert not [line for line in lines if line.startswith("<")]


def test_each_line_of_a_traceback_has_the_priority() -> None:
    """The journal makes an entry of each line."""
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.LogRecord("kwire", logging.ERROR, "", 0, "bug", None, sys.exc_info())
    lines = PriorityFormatter(LineFormatter()).format(record).splitlines()
    assert len(lines) > 2
    assert {line[:3] for line in lines} == {"<3>"}
    record.levelno = logging.DEBUG
    assert PriorityFormatter(LineFormatter()).format(record).startswith("<7>")
