"""The process that runs cleans: ``python -m kwire.log.compaction.worker``, started by a broker.

The cleaner has its own process because building a map and rewriting segments would block the
broker's interpreter. It works on files only, and never changes the files of a live log.

Format: one line of JSON per message. The process reads jobs (``CompactionJob.to_json``). For each
segment that is ready it writes ``{"group": [base_offset, size_bytes, [replaced…]]}``. At the end of
the job it writes ``{"end_offset": n, "statistics": {…}}`` or
``{"failed": [text, is_damaged, errno]}``.

Rules:

- The process ends as soon as its input ends: when the broker dies, or when it has no more jobs.
- The process runs at a low priority, so that it doesn't slow other processes down.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from queue import SimpleQueue
from typing import Any

from kwire.log.compaction.cleaner import Cleaner
from kwire.log.compaction.job import CompactionJob
from kwire.log.compaction.throttle import Throttle
from kwire.log.disk import Disk
from kwire.record.batch import InvalidRecords

NICENESS = 10


def answers(job: CompactionJob, disk: Disk) -> Iterator[dict[str, Any]]:
    """Run a job; yields the messages for the broker."""
    try:
        throttle = Throttle(job.max_bytes_per_second, time.monotonic, time.sleep)
        cleaner = Cleaner(job, disk, clock=time.monotonic, throttle=throttle)
        for group in cleaner.run():
            yield {"group": group}
        end_offset, statistics = cleaner.result
        yield {"end_offset": end_offset, "statistics": asdict(statistics)}
    except OSError as error:
        yield {"failed": [str(error), False, error.errno or 0]}
    except MemoryError:
        yield {"failed": ["out of memory", False, 0]}
    except InvalidRecords as error:
        yield {"failed": [str(error), True, 0]}
    except Exception:  # a bug: it would occur again with the same log
        yield {"failed": [traceback.format_exc(), True, 0]}


def main() -> None:
    """Run jobs from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker handles Ctrl-C and ends the input
    os.nice(NICENESS)
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read_lines, args=(lines,), daemon=True).start()
    disk = Disk()
    while True:
        job = CompactionJob.from_json(json.loads(lines.get()))
        for answer in answers(job, disk):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _read_lines(lines: SimpleQueue[str]) -> None:
    """Pass on every line. End the process when the input ends, even during a clean."""
    try:
        for line in sys.stdin:
            lines.put(line)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
