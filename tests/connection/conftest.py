"""What tests of connections share."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kwire.broker.partition import Partition
from tests.support.clock import HandClock, step_clock, use_clock
from tests.support.in_process import RunningServer, running_server

TOPIC = "t"


@pytest.fixture
def time_by_looks(monkeypatch):
    """The poller's time goes on by 10 µs with every look at it; there is a second processor."""
    step_clock(monkeypatch, "kwire.connection.poller", 1e-5)
    step_clock(monkeypatch, "kwire.budget.work", 1e-5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1}, raising=False)


@pytest.fixture
def clock(monkeypatch):
    """The time by which the slices and turns of the event loop end."""
    made = HandClock()
    use_clock(monkeypatch, made, "kwire.budget.work")
    return made


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with one topic of one partition, and more than one data directory."""
    directories = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_server(tmp_path, directories) as server:
        await server.topic(TOPIC)
        await server.hang_up()
        yield server


@pytest.fixture
def partition(running: RunningServer) -> Partition:
    """The partition."""
    return running.broker.partition(TOPIC, 0)


@pytest.fixture
def all_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was read is served in one turn, and then sent."""
    monkeypatch.setattr("kwire.connection.connection.REQUESTS_PER_TURN", 10_000)
    monkeypatch.setattr("kwire.connection.outbox.FLUSH_BYTES", 1 << 30)
    for name in ("FIRST_S", "SLICE_S", "PASS_S"):
        monkeypatch.setattr(f"kwire.budget.work.{name}", 1 << 30)
