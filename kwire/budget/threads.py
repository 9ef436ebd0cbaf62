"""Worker threads, each kind of work with a limit of its own.

trio's default is one limit of 40 threads for everything. Then forty batches that have to be
decompressed would keep the metadata store, the syncs and the stop of the broker waiting. Here the
requests of one kind wait for each other and for nobody else.

Rules:

- Nothing in kwire calls ``trio.to_thread.run_sync`` without a limiter; tests/test_tidy.py checks.
- A kind that runs Python code has few threads: Python runs one of them at a time anyway, and each
  more only takes time from the event loop. A kind that waits for disks has more.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

_T = TypeVar("_T")

CODING = 1
CHECKING = 2
SYNCING = 16
LOGS = 4
COLD_READS = 8
HOUSEKEEPING = 2
COMPUTING = 1


class Kind:
    """The threads of one kind of work: at most ``limit`` run at a time, in order of arrival."""

    __slots__ = ("_limiter",)

    def __init__(self, limit: int) -> None:
        self._limiter = trio.CapacityLimiter(limit)

    async def run(self, function: Callable[..., _T], *args: object) -> _T:
        """``function(*args)`` in a thread; its result, or what it raises."""
        return await trio.to_thread.run_sync(function, *args, limiter=self._limiter)


class Threads:
    """All kinds of threads of one broker.

    - ``coding``: large requests are decoded and large responses encoded.
    - ``checking``: records are decompressed, checked, and compressed anew.
    - ``syncing``: one run of fsyncs for each data directory.
    - ``logs``: the logs of partitions are opened, renamed and cut at their start.
    - ``cold_reads``: pages that are not in the page cache are read.
    - ``housekeeping``: checkpoints are written, files are removed, compaction is prepared.
    - ``computing``: partitions of large groups are assigned, regular expressions are matched.
    """

    def __init__(self) -> None:
        self.coding = Kind(CODING)
        self.checking = Kind(CHECKING)
        self.syncing = Kind(SYNCING)
        self.logs = Kind(LOGS)
        self.cold_reads = Kind(COLD_READS)
        self.housekeeping = Kind(HOUSEKEEPING)
        self.computing = Kind(COMPUTING)
