"""Worker threads: each kind of work has a limit of its own.

trio's default is one limit of 40 threads for all work. With that limit, forty batches to decompress
would delay the metadata store, the syncs and the stop of the broker. With a limit for each kind,
work waits only for work of the same kind.

Rules:

- Nothing in kwire calls ``trio.to_thread.run_sync`` without a limiter; tests/test_tidy.py checks.
- A kind of work that runs Python code has few threads: Python runs one thread at a time, so each
  further thread only takes time from the event loop. A kind that waits for disks has more threads.
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
        """Call ``function(*args)`` in a thread; return its result, or raise its exception."""
        return await trio.to_thread.run_sync(function, *args, limiter=self._limiter)


class Threads:
    """All kinds of threads of one broker.

    - ``coding``: decode large requests and encode large responses.
    - ``checking``: decompress, check and recompress records.
    - ``syncing``: fsync files, one run at a time for each data directory.
    - ``logs``: open and rename partitions' logs, and delete their segments below a new log start
      offset.
    - ``cold_reads``: read pages of segment files that are not in the page cache.
    - ``housekeeping``: write checkpoints, remove files, prepare compaction.
    - ``computing``: assign partitions to the members of large groups, match regular expressions.
    """

    def __init__(self) -> None:
        self.coding = Kind(CODING)
        self.checking = Kind(CHECKING)
        self.syncing = Kind(SYNCING)
        self.logs = Kind(LOGS)
        self.cold_reads = Kind(COLD_READS)
        self.housekeeping = Kind(HOUSEKEEPING)
        self.computing = Kind(COMPUTING)
