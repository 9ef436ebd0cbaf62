"""Group commit: appends that have to be on the disk share their syncs, which run in threads.

Rules:

- Each data directory has one run of syncs at a time, in a thread. A flush that is demanded during a
  run belongs to the next run, which covers all such flushes. A hundred producers that wait for the
  disk cost one sync for each partition, not one sync for each request.
- Many partitions may have to be flushed at the same time without anybody waiting, because they have
  rolled segments or because ``flush.ms`` has passed (``flush_later``). Each run takes only so many
  of them that all are flushed within ``LATER_S``. So a producer whose flush belongs to the next
  run doesn't wait for all of them.
- Where the disk can't keep up, a run has ``LOGS_AT_ONCE`` logs at the most, or half of its logs are
  demanded ones. So the producer waits less than for all logs in one run, and the others are
  flushed nearly as fast.
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

from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import trio

from kwire.broker.metrics_counters import Histogram
from kwire.budget.thread_pool import ThreadPool
from kwire.errors import KafkaError
from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.log.syncing import sync_all

LATER_S = 0.5
"""A partition that nobody waits for is flushed in this time, if the disk can do that."""

LOGS_AT_ONCE = 2 * Disk.syncers
"""A run of so many logs keeps the threads busy. In a larger run a log takes hardly less time, and
clients wait longer."""


class Flushed(Protocol):
    """A partition, as far as the flusher uses it."""

    log: PartitionLog

    def flushed(self) -> None:
        """Note that the log, as it was when the run began, is on the disk."""


class Demand:
    """What a response may wait for: a ``Flush``, or a ``CommittedRecords``."""

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


class _Directory:
    """What has to be flushed in one data directory, and how much of it the next run takes."""

    __slots__ = ("demanded", "due_s", "is_running", "later", "took_s")

    def __init__(self) -> None:
        self.demanded: dict[Flushed, Flush] = {}
        self.later: dict[Flushed, None] = {}
        self.due_s = 0.0  # when the last of ``later`` should have its turn
        self.took_s = 0.0  # the last run
        self.is_running = False

    def add_later(self, partition: Flushed, now_s: float) -> None:
        """Add a partition that nobody waits for."""
        if not self.later:
            self.due_s = now_s + LATER_S
        self.later[partition] = None

    def next_run(self, now_s: float) -> dict[Flushed, Flush]:
        """Take all flushes that are demanded, and some of those that nobody waits for."""
        flushes, self.demanded = self.demanded, {}
        for partition in flushes:
            self.later.pop(partition, None)
        for partition in list(islice(self.later, self._share(len(flushes), now_s))):
            del self.later[partition]
            flushes[partition] = Flush(partition)
        return flushes

    def _share(self, demanded: int, now_s: float) -> int:
        """How many of those that nobody waits for are in a run with so many demanded flushes.

        So many that all have their turns by ``due_s``, if each run takes as long as the last one.
        At the most they fill the run, or double the number of its logs.
        """
        at_most = max(LOGS_AT_ONCE - demanded, demanded)
        left_s = self.due_s - now_s
        if left_s <= self.took_s:
            return at_most
        return min(max(ceil(len(self.later) * self.took_s / left_s), 1), at_most)


class Flusher:
    """The runs of syncs of one broker, and their ``times``; a task has to execute ``run``."""

    def __init__(self, steady_ms: Callable[[], int], threads: ThreadPool) -> None:
        self._demands: WeakKeyDictionary[trio.lowlevel.Task, set[Demand]] = WeakKeyDictionary()
        self.asked = False  # whether there may be demands: a look that costs no call
        self.times = Histogram()
        self._steady_ms = steady_ms
        self._threads = threads
        self._directories: defaultdict[Path, _Directory] = defaultdict(_Directory)
        self._changed = trio.Event()

    def demand(self, partition: Flushed) -> Flush:
        """Demand a flush of everything that is in a partition's log now; it happens soon."""
        pending = self._directories[partition.log.health.path].demanded
        flush = pending.get(partition)
        if flush is None:
            flush = pending[partition] = Flush(partition)
        self._demands.setdefault(trio.lowlevel.current_task(), set()).add(flush)
        self.asked = True
        self._changed.set()
        return flush

    def flush_later(self, partition: Flushed) -> None:
        """Flush everything in a partition's log when its turn comes; nobody waits for that."""
        directory = self._directories[partition.log.health.path]
        directory.add_later(partition, trio.current_time())
        self._changed.set()

    def rest_on(self, committed: Demand) -> None:
        """Note that the response to the current request rests on a coordinator's records."""
        self._demands.setdefault(trio.lowlevel.current_task(), set()).add(committed)
        self.asked = True

    def forget(self) -> None:
        """Begin a request: forget what this task demanded for earlier requests."""
        self._demands.pop(trio.lowlevel.current_task(), None)
        self.asked = bool(self._demands)

    def leave_to_handler(self, flush: object) -> None:
        """Leave a flush to the current handler, which waits for it and reports its errors."""
        asked = (
            self._demands.get(trio.lowlevel.current_task()) if isinstance(flush, Flush) else None
        )
        if asked is not None:
            asked.discard(flush)

    def taken(self) -> set[Demand]:
        """The demands of this task; from now on the caller has to keep them."""
        taken = self._demands.pop(trio.lowlevel.current_task(), None) or set()
        self.asked = bool(self._demands)
        return taken

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
                for directory in self._directories.values():
                    if not directory.is_running and (directory.demanded or directory.later):
                        directory.is_running = True
                        nursery.start_soon(self._run_directory, directory)

    async def _run_directory(self, directory: _Directory) -> None:
        """Carry out the flushes of one directory until none is left."""
        assert directory.is_running  # so ``run`` starts no second task for it
        while flushes := directory.next_run(began_s := trio.current_time()):
            logs = [partition.log for partition in flushes]
            errors = await self._threads.run(_flush_all, logs, self._steady_ms())
            directory.took_s = trio.current_time() - began_s
            self.times.add(directory.took_s)
            for flush, error in zip(flushes.values(), errors, strict=True):
                if error is None:
                    flush.partition.flushed()
                flush.finish(error)
            self._forget_done({f for f, e in zip(flushes.values(), errors, strict=True) if not e})
        assert not directory.demanded  # whoever demands more from here on wakes ``run``
        directory.is_running = False

    def _forget_done(self, done: set[Flush]) -> None:
        """Forget finished flushes, which tasks without a request to answer would keep forever."""
        for task, asked in list(self._demands.items()):
            asked -= done
            if not asked:
                del self._demands[task]
        self.asked = bool(self._demands)


async def _after(flushes: set[Flush], response: Any) -> Any:
    for flush in flushes:
        await flush.wait()
    return response


def _flush_all(logs: list[PartitionLog], steady_ms: int) -> list[KafkaError | None]:
    """Flush logs together; called in a thread."""
    return sync_all([log.flushing(steady_ms) for log in logs])
