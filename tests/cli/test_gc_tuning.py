"""A full collection, for which all clients wait, runs only if circles may hold memory."""

import gc
import sys
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from kwire.cli import gc_tuning
from kwire.cli.gc_tuning import CHECK_EVERY_S, CHECKS_IN_A_ROW, FEW, LONGEST_S, ROOM


class FakeProcess:
    """A process with as many objects as a test says, and a list of its full collections."""

    def __init__(self) -> None:
        self.blocks = 1_000_000
        self.middle_collections = 0
        self.collected_at_s: list[float] = []

    def collect(self) -> int:
        self.collected_at_s.append(trio.current_time())
        self.middle_collections = 0
        return 0


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    fake = FakeProcess()
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: fake.blocks)
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, fake.middle_collections))
    monkeypatch.setattr(gc, "collect", fake.collect)
    return fake


@pytest.fixture
def thresholds() -> Iterator[None]:
    before, enabled = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*before)
    (gc.enable if enabled else gc.disable)()


async def test_objects_that_stay_are_looked_at(
    process: FakeProcess, autojump_clock: trio.testing.MockClock
) -> None:
    process.middle_collections = 1
    with trio.move_on_after(10 * CHECKS_IN_A_ROW * CHECK_EVERY_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gc_tuning.collect_rarely)
            await trio.testing.wait_all_tasks_blocked()
            process.blocks = int(process.blocks * 1.3) + ROOM
    (collected_at_s,) = (
        process.collected_at_s
    )  # and what is still there then is not looked at again
    assert collected_at_s == pytest.approx(CHECKS_IN_A_ROW * CHECK_EVERY_S)


async def test_large_requests_start_none(
    process: FakeProcess, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Their objects go with them, and all clients would wait while the collector looks at them."""

    def mostly_many() -> int:
        period_s = CHECKS_IN_A_ROW * CHECK_EVERY_S
        return process.blocks * (10 if trio.current_time() % period_s >= CHECK_EVERY_S else 1)

    monkeypatch.setattr(sys, "getallocatedblocks", mostly_many)
    process.middle_collections = FEW
    with trio.move_on_after(LONGEST_S - 1):
        await gc_tuning.collect_rarely()
    assert not process.collected_at_s


async def test_one_comes_in_ten_minutes_if_there_was_work(
    process: FakeProcess, autojump_clock: trio.testing.MockClock
) -> None:
    """Circles without many objects may hold large buffers."""
    process.middle_collections = FEW
    with trio.move_on_after(3 * LONGEST_S):
        await gc_tuning.collect_rarely()
    assert process.collected_at_s == [pytest.approx(LONGEST_S)]


@pytest.mark.usefixtures("thresholds")
def test_python_starts_none_by_itself() -> None:
    """By Python's rule, 25,000 collections of new objects would bring some full ones."""
    gc_tuning.collect_young_only()
    gc.collect()
    before = gc.get_stats()
    for _ in range(25_000):
        gc.collect(1)
    kept: list[list[object]] = [[] for _ in range(10_000)]
    after = gc.get_stats()
    assert kept
    assert after[2]["collections"] == before[2]["collections"]
    assert after[0]["collections"] > before[0]["collections"]
