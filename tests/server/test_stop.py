"""A stop is quick: no client is waited for that was promised nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.budget.work import SLICE_S
from kwire.connection.connection import Connection
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.testing.waiting import until
from tests.support.clock import step_clock
from tests.support.in_process import running_server

LEAVE = """
import atexit, sys
from kwire.cli import process_tuning

class Large:
    def __del__(self):
        print("freed")

kept = [Large()]
kept.append(kept)
atexit.register(lambda: print("at exit"))
process_tuning.end_process(3)
"""


async def test_a_request_in_slices_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client's connection ends without an answer; the client asks another broker."""
    step_clock(monkeypatch, "kwire.budget.work", SLICE_S / 10)
    async with running_server(tmp_path) as running:
        client = await running.connect()
        names = [f"{n:x}" for n in range(200_000)]
        await client.send(DescribeGroupsRequest(groups=names), 5)
        (connection,) = await until(lambda: running.server.poller.connections)
        assert isinstance(connection, Connection)
        await until(lambda: connection.used_s > 20 * SLICE_S)
        running.server.stop()
        await until(lambda: running.broker.is_stopping)
        used_s = connection.used_s
        assert await client.is_closed()
        assert connection.used_s <= used_s + 2 * SLICE_S
        await client.aclose()


def test_the_process_ends_without_freeing_its_objects() -> None:
    """Python takes seconds for millions of them; what is to run at exit runs."""
    done = subprocess.run(
        [sys.executable, "-c", LEAVE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (3, "at exit\n")


@pytest.mark.parametrize("stdout", ["missing", "unread"])
def test_a_clean_stop_is_a_success_though_nobody_reads_its_output(stdout: str) -> None:
    """A service may be started without a standard output, or outlive the reader of its output."""
    reading, writing = os.pipe()
    os.close(reading)
    call = "process_tuning.end_process"
    code = LEAVE.replace(call, f"sys.stdout = None\n{call}")
    done = subprocess.run(
        [sys.executable, "-c", code if stdout == "missing" else LEAVE],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 3, done.stderr
