"""Limits the processor time of the HTTP port, because it shares Python's interpreter with Kafka's.

Rule: the thread of the HTTP port may use ``BURST_S`` of processor time at once, and ``SHARE`` of a
processor in the long run. Beyond that it sleeps. So endless requests delay only the HTTP port. A
page for a person, or the metrics of thousands of partitions, fit into the burst.
"""

import time

import trio

SHARE = 0.25
BURST_S = 2.0
LONGEST_SLEEP_S = 0.25


class Governor(trio.abc.Instrument):
    """An instrument of the HTTP port's loop: after each step of a task it may sleep."""

    def __init__(self) -> None:
        self._left_s = BURST_S
        self._seen_s = time.monotonic()
        self._used_s = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count the step, and sleep if the share is used up. The sleep frees the interpreter."""
        used_s = time.thread_time()
        self._left_s -= used_s - self._used_s
        self._used_s = used_s
        if self._left_s < BURST_S / 2:
            self._earn()
            if self._left_s < 0:
                time.sleep(min(-self._left_s / SHARE, LONGEST_SLEEP_S))
                self._earn()

    def _earn(self) -> None:
        now_s = time.monotonic()
        self._left_s = min(BURST_S, self._left_s + (now_s - self._seen_s) * SHARE)
        self._seen_s = now_s
