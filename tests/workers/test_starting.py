"""A signal ends the start of workers soon, also while they recover logs for hours."""

import subprocess
import sys

SLOW_START = """
import os, signal, sys
from kwire.cli import main
from kwire.server import Server

supervisor, open_logs = os.getpid(), Server._open_logs

def open_slowly(server):
    if server.config.integer("node.id") == 1:
        os.kill(supervisor, signal.SIGTERM)
    while not server._stop.is_set():
        pass
    return open_logs(server)

Server._open_logs = open_slowly
sys.exit(main(["serve", "--workers", "2", "--listen", "127.0.0.1:0", "--data-dir", sys.argv[1]]))
"""


def test_a_signal_ends_the_start_and_nothing_is_said_to_be_ready(tmp_path):
    """The exit code is that of a stop; each worker stops as a broker does that is alone."""
    command = [sys.executable, "-c", SLOW_START, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "Traceback" not in ended.stderr
    assert "stopped before the workers were ready" in ended.stderr
    assert "worker 1 kwire.workers.worker: stopped before the broker was ready" in ended.stderr
