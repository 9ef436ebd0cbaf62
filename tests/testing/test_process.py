"""Brokers in processes of their own: a start that hangs is told, and none outlives its parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.testing.process import BrokerFailed, BrokerProcess
from kwire.testing.waiting import wait_until

PARENT = """
import sys, time
from kwire.testing.process import BrokerProcess
broker = BrokerProcess(sys.argv[1]).start()
print(broker.pid, flush=True)
sys.stdin.read()
"""

HANGING = """
import sys, threading
print("WARNING cannot go on", file=sys.stderr, flush=True)
threading.Event().wait()
"""


def _is_alive(pid: int) -> bool:
    """Whether a process goes on; one that has ended and waits for its parent doesn't."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_broker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Also when that one is killed and has no time to say so; the stop is clean."""
    data = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _is_alive(pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not _is_alive(pid), what="the broker to end")
    assert (data / ".kafka_cleanshutdown").exists()


def test_a_start_that_hangs_is_told_with_the_end_of_the_log(tmp_path: Path) -> None:
    """Instead of waiting for ever; and the process is gone."""
    package = tmp_path / "kwire"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(HANGING)
    broker = BrokerProcess(tmp_path / "data", package_parent=tmp_path, start_timeout_s=2)
    with pytest.raises(BrokerFailed, match=r"was not ready after 2 s") as failed:
        broker.start()
    assert "cannot go on" in str(failed.value)
    assert broker.stop() == 0, "there is nothing to stop"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the pipe ends a broker")
def test_a_broker_dies_with_its_parent_even_if_it_hangs(tmp_path: Path) -> None:
    """A stopped process reads no end of a pipe; a forked child keeps the pipe open besides."""
    script = PARENT.replace(
        "BrokerProcess(sys.argv[1])", "BrokerProcess(sys.argv[1], dies_with_parent=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not _is_alive(pid), what="the broker to die")
