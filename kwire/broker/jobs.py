"""Long computations of coordinators, in threads, so that other requests have their turn.

Rules:

- One thread does all jobs of one kind, one after the other. More threads would only take the
  interpreter from each other. Assignments and regular expressions are two kinds, because a client
  can send an expensive expression, and assignments must not wait for it. No other work uses these
  threads.
- An exception in a job is a bug. It is logged, and the coordinator gets it in place of a result.
- If a job's coordinator is gone, the job isn't begun, or its result is dropped.
"""

import logging
from collections.abc import Callable
from typing import Any

import trio

from kwire.broker.metrics_counters import Bugs
from kwire.budget.threads import Threads
from kwire.coordinator.effects import Job, JobKind

log = logging.getLogger(__name__)


class Jobs:
    """The jobs of a broker's coordinators, run in ``nursery``; ``bugs`` collects exceptions."""

    def __init__(self, nursery: trio.Nursery, threads: Threads, bugs: Bugs) -> None:
        self._nursery = nursery
        self._bugs = bugs
        self._kinds = {
            JobKind.ASSIGNMENT: (threads.computing, trio.StrictFIFOLock()),
            JobKind.MATCHING: (threads.matching, trio.StrictFIFOLock()),
        }

    def start_job(
        self, job: Job, is_wanted: Callable[[], bool], hand_in: Callable[[Job, Any], object]
    ) -> None:
        """Do a job. ``hand_in`` gets the job and its result if ``is_wanted`` still returns True."""
        self._nursery.start_soon(self._run_job, job, is_wanted, hand_in)

    async def _run_job(
        self, job: Job, is_wanted: Callable[[], bool], hand_in: Callable[[Job, Any], object]
    ) -> None:
        threads, turn = self._kinds[job.kind]
        async with turn:
            if not is_wanted():
                return
            result: Any
            try:
                result = await threads.run(job.work, abandon=True)
            except Exception as error:
                log.exception("failed: %s", job.name)
                self._bugs.append(error)
                result = error
        if is_wanted():
            hand_in(job, result)
