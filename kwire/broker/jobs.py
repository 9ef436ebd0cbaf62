"""What a coordinator has done elsewhere: long work in a thread, so that others have their turn.

Rules:

- One thread does the work of all coordinators, one job after the other: two would only take the
  interpreter from each other, and no other thread of the broker waits for this kind of work.
- An exception of the work is a bug: it is logged, and the coordinator is handed it in place of the
  result.
- Work whose coordinator is gone isn't begun, and what it gives isn't handed in.
"""

import logging
from collections.abc import Callable
from typing import Any

import trio

from kwire.budget.threads import Kind
from kwire.coordinator.effects import Job

log = logging.getLogger(__name__)


class Jobs:
    """The jobs of a broker's coordinators, which run in ``nursery``; ``bugs`` keeps exceptions."""

    def __init__(self, nursery: trio.Nursery, threads: Kind, bugs: list[Exception]) -> None:
        self._nursery = nursery
        self._threads = threads
        self._bugs = bugs
        self._turn = trio.StrictFIFOLock()

    def begin(
        self, job: Job, is_wanted: Callable[[], bool], hand_in: Callable[[Job, Any], object]
    ) -> None:
        """Do a job; ``hand_in`` takes it and its result if that ``is_wanted`` still."""
        self._nursery.start_soon(self._do, job, is_wanted, hand_in)

    async def _do(
        self, job: Job, is_wanted: Callable[[], bool], hand_in: Callable[[Job, Any], object]
    ) -> None:
        async with self._turn:
            if not is_wanted():
                return
            result: Any
            try:
                result = await self._threads.run(job.work)
            except Exception as error:
                log.exception("failed: %s", job.name)
                self._bugs.append(error)
                result = error
        if is_wanted():
            hand_in(job, result)
