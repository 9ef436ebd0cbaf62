"""The guard itself: whatever a request begins to cost more, it says so."""

import os
from inspect import iscoroutinefunction

import pytest
import trio

from kwire.dispatch.routes import route
from kwire.dispatch.routing import loaded_route
from kwire.handlers import fetch as fetch_handler
from kwire.handlers import heartbeat
from kwire.handlers import produce as produce_handler
from kwire.handlers.lib.waiting import in_task
from tests.performance import test_costs
from tests.performance.desk import desk, sent, stand_still
from tests.performance.messages import TOPIC, batch, fetch, produce
from tests.performance.meter import SEES_INSTRUCTIONS
from tests.performance.test_costs import grown, measured, read_costs

SEQUENCE = "heartbeat of nobody"
leaked = []


def no_more(*_arguments):
    """Costs what it costs to do something more."""


def calls(*_arguments):
    """Calls a function, more often than another Python would for the same."""
    no_more()
    no_more()


def stats(*_arguments):
    """Asks the kernel."""
    os.stat("/")


def copies(*_arguments):
    """Copies something large, and gives it back at once."""
    len(bytes(20_000))


def makes_one_object(*_arguments):
    """Makes something that isn't large."""
    len(bytes(600))


def makes_some_objects(*_arguments):
    """Makes what is small, and each gives its memory to the next."""
    len(bytes(8))
    len(dict(a=1))  # noqa: C408 - a literal is made without a call
    len([1] * 20)


def copies_the_frame(frame, *_arguments):
    """Makes copies that nobody needs."""
    bytearray(bytes(frame))


def leaks(*_arguments):
    """Keeps the smallest object that there is every time."""
    leaked.append(object())


def holds(*_arguments):
    """Needs memory for a moment, in small pieces."""
    sum(len(piece) for piece in [bytes(500) for _ in range(100)])


@pytest.fixture
def also(monkeypatch):
    """Has something more done before a request is served; one thing at a time."""
    handlers = {}

    def use(module, more):
        name = "single" if hasattr(module, "single") else "handle"
        real = handlers.setdefault(module, getattr(module, name))

        def single(version):
            serve = real(version)

            def serve_single(*arguments):
                more(*arguments)
                return serve(*arguments)

            return serve_single

        def handle(*arguments):
            more(*arguments)
            return real(*arguments)

        async def handle_later(*arguments):
            more(*arguments)
            return await real(*arguments)

        done = handle_later if iscoroutinefunction(real) else handle
        done = single if name == "single" else done
        monkeypatch.setattr(module, name, done)
        route.cache_clear()
        loaded_route.cache_clear()

    yield use
    monkeypatch.undo()
    route.cache_clear()
    loaded_route.cache_clear()
    leaked.clear()


MORE = [
    (SEQUENCE, heartbeat, calls, "calls"),
    (SEQUENCE, heartbeat, stats, "system call: stat"),
    (SEQUENCE, heartbeat, copies, "bytes copied"),
    (SEQUENCE, heartbeat, leaks, "bytes kept"),
    (SEQUENCE, heartbeat, holds, "peak bytes"),
    ("fetch, 1 partition", fetch_handler, makes_one_object, "bytes allocated"),
    ("fetch that waits, produce", fetch_handler, leaks, "bytes kept"),
]
if SEES_INSTRUCTIONS:
    MORE += [
        ("produce, 1 record", produce_handler, makes_some_objects, "bytes allocated"),
        ("fetch that waits, produce", produce_handler, copies_the_frame, "bytes allocated"),
    ]


@pytest.fixture
def few_repeats(monkeypatch):
    """What grows each time is seen in a few."""
    monkeypatch.setattr(test_costs, "REPEATS", 5)
    monkeypatch.setattr(test_costs, "KEPT_REPEATS", 15)


@pytest.mark.parametrize(("sequence", "module", "more", "what"), MORE)
async def test_what_grows_is_named(
    tmp_path, mock_clock, monkeypatch, few_repeats, also, sequence, module, more, what
):
    stand_still(monkeypatch)
    also(module, no_more)
    before = await measured(sequence, tmp_path / "before")
    also(module, more)
    found = grown(await measured(sequence, tmp_path / "after"), before)
    assert any(line.startswith(f"{what} grew from ") for line in found), found


async def test_a_wake_up_more_is_seen(tmp_path, mock_clock, monkeypatch, few_repeats, also):
    stand_still(monkeypatch)
    real = heartbeat.handle

    @in_task
    async def handle(request, context):
        await trio.lowlevel.checkpoint()
        return real(request, context)

    monkeypatch.setattr(heartbeat, "handle", handle)
    route.cache_clear()
    loaded_route.cache_clear()
    costs = await measured(SEQUENCE, tmp_path)
    assert costs["wake-ups"] > read_costs()[SEQUENCE]["wake-ups"]


async def test_a_refusal_is_told(tmp_path, mock_clock):
    """It would cost less than what it refuses."""
    async with desk(tmp_path) as clients:
        await clients.topic(TOPIC, 1)
        too_large = produce(batch(record_bytes=1 << 20))
        with pytest.raises(AssertionError, match="ProduceResponse has error codes"):
            await clients.run([[sent(too_large)]])
        with pytest.raises(AssertionError, match="FetchResponse brings records of 0 partitions"):
            await clients.run([[sent(fetch())]])


def test_a_little_memory_more_is_no_growth():
    recorded = {"peak bytes": 3000.0, "bytes kept": 0.0, "bytes allocated": 1000.0, "calls": 40.0}
    costs = {"peak bytes": 3200, "bytes kept": 6, "bytes allocated": 1040, "calls": 40}
    assert grown(costs, recorded) == []
    assert grown({"calls": 41.04}, recorded) == ["calls grew from 40 to 41.04"]
