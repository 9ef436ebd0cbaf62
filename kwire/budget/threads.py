"""Worker threads: each kind of work has a limit of its own.

trio's default is one limit of 40 threads for all work. With that limit, forty batches to decompress
would delay the metadata store, the syncs and the stop of the broker. With a limit for each kind,
work waits only for work of the same kind.

Rules:

- Nothing in kwire calls ``trio.to_thread.run_sync`` without a limiter; tests/test_tidy.py checks.
- A kind of work that runs Python code has few threads: Python runs one thread at a time, so each
  further thread only takes time from the event loop. A kind that waits for disks has more threads.
"""

from collections.abc import Iterable

from kwire.budget.thread_pool import ThreadPool
from kwire.budget.validation_pool import FairThread, ValidationPool

SYNCING = 16
LOGS = 4
COLD_READS = 8
HOUSEKEEPING = 2
COMPUTING = 1
DECIDING = 2
HANDSHAKES = 2


class Threads:
    """All kinds of threads of one broker.

    - ``validation``: records are decompressed, checked, and compressed anew (``validation_pool``).
    - ``syncing``: one run of fsyncs for each data directory.
    - ``logs``: the logs of partitions are opened, renamed and cut at their start.
    - ``cold_reads``: pages that are not in the page cache are read.
    - ``housekeeping``: checkpoints are written, files are removed, compaction is prepared, records
      are copied for dead letters.
    - ``computing``: partitions of large groups are assigned.
    - ``deciding``: decisions about every partition are made, like fencing a broker, and large
      commits are applied. All later changes of metadata wait for this, so it must not wait for
      groups.
    - ``matching``: regular expressions of groups are matched; no assignment waits for that.
    - ``regexes``: regular expressions of requests are compiled, and matched for listings; the
      connection that has used the thread least comes first.
    - ``telemetry``: metrics that clients push are read; the connection that has used the threads
      least comes first.
    - ``tokens``: the credentials of delegation tokens are derived, which takes milliseconds.
    - ``loading``: the modules that serve an API are imported for its first request.
    - ``handshakes``: the steps of TLS handshakes, which take about a millisecond.
    """

    def __init__(self) -> None:
        self.validation = ValidationPool()
        self.syncing = ThreadPool(SYNCING)
        self.logs = ThreadPool(LOGS)
        self.cold_reads = ThreadPool(COLD_READS)
        self.housekeeping = ThreadPool(HOUSEKEEPING)
        self.computing = ThreadPool(COMPUTING)
        self.deciding = ThreadPool(DECIDING)
        self.telemetry = FairThread()
        self.matching = ThreadPool(COMPUTING)
        self.regexes = FairThread()
        self.tokens = ThreadPool(COMPUTING)
        self.loading = ThreadPool(COMPUTING)
        self.handshakes = ThreadPool(HANDSHAKES)

    @property
    def running(self) -> int:
        """How many threads of all kinds are at work."""
        kinds: Iterable[ThreadPool | FairThread | ValidationPool] = vars(self).values()
        return sum(kind.running for kind in kinds)

    def close(self) -> None:
        """Give up work that no client was promised: batches to check, metrics."""
        self.validation.close()
        self.regexes.close()
        self.telemetry.close()
