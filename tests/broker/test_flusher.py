"""The runs of syncs by a clock that a test turns: their sizes, and how long a client waits."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from kwire.broker.flusher import LATER_S, LOGS_AT_ONCE, Flusher
from kwire.log.disk import Disk
from kwire.testing.waiting import until

COUNT = 300


async def pass_time(seconds: float) -> None:
    """Let the test's clock pass so many seconds; nobody waits for that."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


class Partition:
    """A partition in a data directory that counts its flushes."""

    def __init__(self, directory: str, flushes: Counter["Partition"]) -> None:
        health = SimpleNamespace(path=Path(directory))
        self.log: Any = SimpleNamespace(health=health, flushing=lambda steady_ms: None)
        self._flushes = flushes

    def flushed(self) -> None:
        """Count."""
        self._flushes[self] += 1


class Threads:
    """Threads in which a run of syncs takes as long as ``took_s`` says, by its logs."""

    def __init__(self, took_s: Callable[[list[Any]], float]) -> None:
        self.took_s = took_s
        self.sizes: list[int] = []

    async def run(self, function: object, logs: list[Any], steady_ms: int) -> list[None]:
        """Wait as long as the disk would take."""
        self.sizes.append(len(logs))
        await pass_time(self.took_s(logs))
        return [None] * len(logs)


class Backlog:
    """Partitions that nobody waits for, and a client that demands one flush after the other."""

    def __init__(self, took_s: Callable[[list[Any]], float]) -> None:
        self.threads = Threads(took_s)
        self.flushes: Counter[Partition] = Counter()
        self.flusher = Flusher(lambda: 0, self.threads)  # type: ignore[arg-type]
        self.waits_s: list[float] = []

    async def drain(self, count: int = COUNT, directory: str = "data") -> float:
        """Flush so many partitions later; returns how many seconds that took."""
        began_s = trio.current_time()
        many = [Partition(directory, self.flushes) for _ in range(count)]
        for partition in many:
            self.flusher.flush_later(partition)
        await until(lambda: all(self.flushes[partition] for partition in many))
        assert max(self.flushes[partition] for partition in many) == 1
        return trio.current_time() - began_s

    async def demand(self, clients: int = 1) -> None:
        """Demand flushes of partitions forever, and note how long each demand waits."""
        own = [Partition("data", self.flushes) for _ in range(clients)]
        while True:
            began_s = trio.current_time()
            for flush in [self.flusher.demand(one) for one in own]:
                await flush.wait()
            self.waits_s.append(trio.current_time() - began_s)

    @asynccontextmanager
    async def running(self, clients: int = 1) -> AsyncIterator[None]:
        """Let the flusher run beside so many clients."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.flusher.run)
            if clients:
                nursery.start_soon(self.demand, clients)
            yield
            nursery.cancel_scope.cancel()


def disk(sync_s: float, log_s: float = 0.0) -> Callable[[list[Any]], float]:
    """A disk that takes ``sync_s`` for up to 16 logs, and a processor with ``log_s`` for each."""
    return lambda logs: sync_s * ceil(len(logs) / Disk.syncers) + log_s * len(logs)


@pytest.mark.parametrize(
    ("took_s", "longest_s", "waits_s"),
    [
        (disk(0.02), 0.65, 0.042),
        (disk(0.0001), 0.65, 0.001),
        (disk(0.0, log_s=0.001), 0.65, 0.010),  # the interpreter's lock is contended
        (disk(0.06), 1.3, 0.245),  # the disk needs 1.1 s for all of them in one run
        (disk(0.0, log_s=0.006), 2.0, 0.39),  # likewise 1.8 s
    ],
    ids=["a slow disk", "a fast disk", "a busy processor", "a very slow disk", "no time at all"],
)
async def test_a_backlog_is_flushed_in_time_and_a_client_does_not_wait_for_it(
    took_s: Callable[[list[Any]], float],
    longest_s: float,
    waits_s: float,
    autojump_clock: MockClock,
) -> None:
    """If the disk can't keep up, the backlog takes little longer than it would in one run."""
    backlog = Backlog(took_s)
    async with backlog.running():
        await pass_time(1)
        assert await backlog.drain() < longest_s
    assert max(backlog.waits_s) < waits_s


async def test_a_slow_run_has_no_effect_on_the_time_after_it(autojump_clock: MockClock) -> None:
    """After a disk has hung, a backlog is flushed as fast as ever."""
    backlog = Backlog(lambda logs: hanging_s or 0.02)
    hanging_s = 1.0
    async with backlog.running():
        await backlog.drain(20)
        hanging_s = 0.0
        await pass_time(2)
        assert await backlog.drain() < 0.65


async def test_a_run_takes_as_many_for_nobody_as_for_clients(autojump_clock: MockClock) -> None:
    """Where so many clients fill the threads that the backlog would get no place."""
    backlog = Backlog(disk(0.02))
    async with backlog.running(clients=100):
        assert await backlog.drain() < 1.5
    assert max(backlog.threads.sizes) <= 200


async def test_a_backlog_that_nobody_waits_for_is_flushed_in_time_too(
    autojump_clock: MockClock,
) -> None:
    """A client may come at any moment, so the runs are not larger."""
    backlog = Backlog(disk(0.02))
    async with backlog.running(clients=0):
        assert await backlog.drain() < LATER_S + 0.1
    assert max(backlog.threads.sizes) <= LOGS_AT_ONCE


async def test_a_directory_on_a_slow_disk_has_no_effect_on_another(
    autojump_clock: MockClock,
) -> None:
    """Each directory has runs of its own, and their sizes follow from its own disk."""

    def took_s(logs: list[Any]) -> float:
        is_slow = logs[0].health.path == Path("slow")
        sizes[is_slow] = max(sizes[is_slow], len(logs))
        return 0.5 if is_slow else 0.001

    sizes: dict[bool, int] = Counter()
    backlog = Backlog(took_s)
    async with backlog.running(clients=0), trio.open_nursery() as nursery:
        nursery.start_soon(backlog.drain, 60, "slow")
        await pass_time(0.9)
        assert await backlog.drain(100, "data") < LATER_S + 0.1
    assert sizes == {True: LOGS_AT_ONCE, False: 1}
