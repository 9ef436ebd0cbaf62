"""The guard itself: whatever a request begins to cost more, it says so."""

import os

import pytest
import trio

from kwire.handlers import heartbeat, route
from tests.performance.desk import stand_still
from tests.performance.test_costs import grown, measured, read_costs

SEQUENCE = "heartbeat of nobody"
leaked = []


def no_more():
    """Costs nothing."""


def calls():
    """Calls a function."""
    no_more()


def stats():
    """Asks the kernel."""
    os.stat("/")


def copies():
    """Copies something large, and gives it back at once."""
    len(bytes(4096))


def leaks():
    """Keeps a little more every time."""
    leaked.append(bytes(600))


def holds():
    """Needs memory for a moment, in small pieces."""
    sum(len(piece) for piece in [bytes(500) for _ in range(100)])


@pytest.fixture
def handled_with(monkeypatch):
    """Puts another handler in the place of the one for heartbeats."""

    def use(handle):
        monkeypatch.setattr(heartbeat, "handle", handle)
        route.cache_clear()

    yield use
    monkeypatch.undo()
    route.cache_clear()
    leaked.clear()


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (calls, "calls"),
        (stats, "system call: stat"),
        (copies, "bytes copied"),
        (leaks, "bytes kept"),
        (holds, "peak bytes"),
    ],
)
async def test_what_grows_is_named(tmp_path, mock_clock, monkeypatch, handled_with, more, what):
    stand_still(monkeypatch)
    real = heartbeat.handle

    def handle(request, context):
        more()
        return real(request, context)

    handled_with(handle)
    costs = await measured(SEQUENCE, tmp_path)
    found = grown(costs, read_costs()[SEQUENCE])
    assert any(line.startswith(f"{what} grew from ") for line in found), found


async def test_a_wake_up_more_is_seen(tmp_path, mock_clock, monkeypatch, handled_with):
    stand_still(monkeypatch)
    real = heartbeat.handle

    async def handle(request, context):
        await trio.lowlevel.checkpoint()
        return real(request, context)

    handled_with(handle)
    costs = await measured(SEQUENCE, tmp_path)
    assert costs["wake-ups"] > read_costs()[SEQUENCE]["wake-ups"]


def test_a_little_memory_more_is_no_growth():
    recorded = {"peak bytes": 3000.0, "bytes kept": 0.0, "calls": 40.0}
    assert grown({"peak bytes": 3200, "bytes kept": 100, "calls": 40}, recorded) == []
    assert grown({"calls": 41.04}, recorded) == ["calls grew from 40 to 41.04"]
