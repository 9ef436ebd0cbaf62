"""The process that cleans: ``python -m kwire.log.compaction.worker``, started by a broker.

It holds an interpreter of its own, because mapping and rewriting would hold the broker's. It knows
nothing but files, and changes none that a log is made of.

Format: a line of JSON for each message. It reads jobs (``CompactionJob.to_json``). It answers each
with ``{"group": [base_offset, size_bytes, [replaced…]]}`` for each segment that is ready, and then
``{"end_offset": n, "statistics": {…}}`` or ``{"failed": [text, is_damaged, errno]}``.

Rules:

- It ends when its input ends, at once: with the broker, or when the broker has no more to do.
- It gives way to everybody else: it runs at a low priority.
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
    """Do a job; the messages that tell how it goes."""
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
    except Exception:  # a bug, which the same log would bring about again
        yield {"failed": [traceback.format_exc(), True, 0]}


def main() -> None:
    """Serve jobs from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which ends its input
    os.nice(NICENESS)
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    disk = Disk()
    while True:
        job = CompactionJob.from_json(json.loads(lines.get()))
        for answer in answers(job, disk):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _read(lines: SimpleQueue[str]) -> None:
    """Pass on every line, and end the process with the input, whatever it is doing."""
    try:
        for line in sys.stdin:
            lines.put(line)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
