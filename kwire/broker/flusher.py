"""Group commit: appends that have to be on the disk share their syncs, which run in threads.

Rules:

- Each data directory has one run of syncs at a time, in a thread. A flush that is demanded during a
  run belongs to the next run, which covers all such flushes. A hundred producers that wait for the
  disk cost one sync for each partition, not one sync for each request.
- Many partitions may have to be flushed at the same time without anybody waiting, because they have
  rolled segments or because ``flush.ms`` has passed (``flush_later``). Each run takes only a few of
  them, so that a producer whose flush belongs to the next run doesn't wait for all of them.
- An append is acknowledged, and shown to consumers, after the run that covers it.
- A sync that fails takes its directory offline, and no append that waited for it is acknowledged.
- Most handlers ignore the disk: the connection holds a response back (``hold``) until the flushes
  that its request demanded are done. The flusher notes demands by task. A request that continues
  later, perhaps in another task, takes its demands along (``taken``).
- A handler that gives each partition an error of its own waits for its flushes itself, and calls
  ``leave_to_handler``.
- A response that rests on a coordinator's records is held back in the same way, until other
  brokers have these records (``rest_on``).
"""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import trio

from kwire.broker.tally import Spread
from kwire.budget.threads import Kind
from kwire.errors import KafkaError
from kwire.log.partition_log import PartitionLog
from kwire.log.syncing import sync_all

LATER_AT_FIRST = 8
LATER_AT_BEST = 32
"""So many of the partitions that nobody waits for are flushed in one run, at first and at the most:
twice as many as threads sync at a time (``Disk.syncers``)."""

LONG_S = 0.05
"""If a demanded flush waits longer than this for such a run, the next runs take fewer."""


class Flushed(Protocol):
    """A partition, as far as the flusher uses it."""

    log: PartitionLog

    def flushed(self) -> None:
        """Note that the log, as it was when the run began, is on the disk."""


class Demand:
    """What a response may wait for: a ``Flush``, or a ``Basis``."""

    __slots__ = ()


class Flush(Demand):
    """One partition's part in a run of syncs."""

    __slots__ = ("_done", "_error", "partition")

    def __init__(self, partition: Flushed) -> None:
        self.partition = partition
        self._done = trio.Event()
        self._error: KafkaError | None = None

    def finish(self, error: KafkaError | None) -> None:
        """Note that the run has ended."""
        self._error = error
        self._done.set()

    async def wait(self) -> None:
        """Wait until the log is on the disk; KafkaError (KAFKA_STORAGE_ERROR) if that failed."""
        await self._done.wait()
        if self._error is not None:
            raise self._error


class Flusher:
    """The runs of syncs of one broker, and their ``times``; a task has to execute ``run``."""

    def __init__(self, steady_ms: Callable[[], int], threads: Kind) -> None:
        self.asked: WeakKeyDictionary[trio.lowlevel.Task, set[Demand]] = WeakKeyDictionary()
        self.times = Spread()
        self._steady_ms = steady_ms
        self._threads = threads
        self._next: dict[Path, dict[Flushed, Flush]] = {}
        self._later: dict[Path, dict[Flushed, None]] = {}
        self._later_at_once = LATER_AT_FIRST
        self._running: set[Path] = set()
        self._changed = trio.Event()

    def demand(self, partition: Flushed) -> Flush:
        """Demand a flush of everything that is in a partition's log now; it happens soon."""
        pending = self._next.setdefault(partition.log.health.path, {})
        flush = pending.get(partition)
        if flush is None:
            flush = pending[partition] = Flush(partition)
        self.asked.setdefault(trio.lowlevel.current_task(), set()).add(flush)
        self._changed.set()
        return flush

    def flush_later(self, partition: Flushed) -> None:
        """Flush everything in a partition's log when its turn comes; nobody waits for that."""
        self._later.setdefault(partition.log.health.path, {})[partition] = None
        self._changed.set()

    def rest_on(self, basis: Demand) -> None:
        """Note that the response to the current request rests on a coordinator's records."""
        self.asked.setdefault(trio.lowlevel.current_task(), set()).add(basis)

    def forget(self) -> None:
        """Begin a request: forget what this task demanded for earlier requests."""
        self.asked.pop(trio.lowlevel.current_task(), None)

    def leave_to_handler(self, flush: object) -> None:
        """Leave a flush to the current handler, which waits for it and reports its errors."""
        asked = self.asked.get(trio.lowlevel.current_task()) if isinstance(flush, Flush) else None
        if asked is not None:
            asked.discard(flush)

    def taken(self) -> set[Demand]:
        """The demands of this task; from now on the caller has to keep them."""
        return self.asked.pop(trio.lowlevel.current_task(), None) or set()

    def hold(self, response: Any, flushes: set[Flush]) -> Any:
        """The response; if there are flushes, a coroutine that gives it after them.

        The coroutine raises KafkaError if a sync fails.
        """
        return _after(flushes, response) if flushes else response

    async def run(self) -> None:
        """Carry out the flushes that are demanded, forever."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._changed.wait()
                self._changed = trio.Event()
                for directory in {*self._next, *self._later}:
                    if directory not in self._running:
                        self._running.add(directory)
                        nursery.start_soon(self._run_directory, directory)

    async def _run_directory(self, directory: Path) -> None:
        """Carry out the flushes of one directory until none is left."""
        while True:
            is_awaited = directory in self._next
            flushes = self._next_run(directory)
            if not flushes:
                break
            logs = [partition.log for partition in flushes]
            began_s = perf_counter()
            errors = await self._threads.run(_flush_all, logs, self._steady_ms())
            took_s = perf_counter() - began_s
            self.times.add(took_s)
            if directory in self._later:
                self._adapt(took_s, is_awaited=is_awaited or directory in self._next)
            for flush, error in zip(flushes.values(), errors, strict=True):
                if error is None:
                    flush.partition.flushed()
                flush.finish(error)
            self._forget_done({f for f, e in zip(flushes.values(), errors, strict=True) if not e})
        self._running.discard(directory)

    def _next_run(self, directory: Path) -> dict[Flushed, Flush]:
        """Take all flushes that are demanded, and a few of those that nobody waits for."""
        flushes = self._next.pop(directory, {})
        later = self._later.get(directory, {})
        for partition in flushes:
            later.pop(partition, None)
        for partition in list(islice(later, self._later_at_once)):
            del later[partition]
            flushes[partition] = Flush(partition)
        if not later:
            self._later.pop(directory, None)
        return flushes

    def _adapt(self, took_s: float, *, is_awaited: bool) -> None:
        """Let the next runs take more or fewer of those that nobody waits for.

        On a slow disk many together take little longer than a few, because threads sync them. On
        a busy processor each one takes longer.
        """
        if is_awaited and took_s > LONG_S:
            self._later_at_once = max(self._later_at_once // 2, 1)
        elif not is_awaited or took_s < LONG_S / 4:
            self._later_at_once = min(self._later_at_once * 2, LATER_AT_BEST)

    def _forget_done(self, done: set[Flush]) -> None:
        """Forget finished flushes, which tasks without a request to answer would keep forever."""
        for task, asked in list(self.asked.items()):
            asked -= done
            if not asked:
                del self.asked[task]


async def _after(flushes: set[Flush], response: Any) -> Any:
    for flush in flushes:
        await flush.wait()
    return response


def _flush_all(logs: list[PartitionLog], steady_ms: int) -> list[KafkaError | None]:
    """Flush logs together; called in a thread."""
    return sync_all([log.flushing(steady_ms) for log in logs])
