"""A request that is answered later: when something has happened, or at its deadline.

Kafka calls it a DelayedOperation. It needs no task: the handler's coroutine rests, and its
connection resumes it. What a request may wait for is this, or work that needs a task
(``kwire.handlers.lib.waiting``).

``DelayedProduce`` waits for replicas. Everything else is a plain ``Delayed``, which the code that
makes the change has in a list of its own: fetches in their partitions, commits of offsets in their
coordinators' logs, elections in the failure detector.
"""

import math
from typing import Protocol


class Sleeper(Protocol):
    """Resumes the request; the connection that it came from."""

    def wake(self, size: int) -> None:
        """Resume: the change has happened, or its deadline has passed; called once per wait.

        ``size`` is how much there is to look at then.
        """

    def hasten(self, change: "Delayed") -> None:
        """Follow the change's ``deadline_s``, which has become sooner."""


class Delayed:
    """A change that a request waits for, until ``deadline_s`` by trio's clock.

    A change may happen repeatedly; several times between two looks count as one. ``is_timed``
    belongs to the code that watches the deadline (``kwire.connection.deadlines``). ``size`` is how
    much there is to look at then, such as the number of partitions: it gives the request its place
    among the woken ones.
    """

    __slots__ = ("deadline_s", "is_late", "is_set", "is_timed", "size", "sleeper")

    def __init__(self, deadline_s: float = math.inf, size: int = 1) -> None:
        self.deadline_s = deadline_s
        self.size = size
        self.is_set = False
        self.is_late = False
        self.is_timed = False
        self.sleeper: Sleeper | None = None

    def set(self) -> None:
        """Note that the change has happened."""
        if not self.is_set:
            self.is_set = True
            if self.sleeper is not None and not self.is_late:
                self.sleeper.wake(self.size)

    def hasten(self, deadline_s: float) -> None:
        """Wait until ``deadline_s`` at most."""
        if deadline_s < self.deadline_s:
            self.deadline_s = deadline_s
            if self.sleeper is not None:
                self.sleeper.hasten(self)

    def time_is_up(self) -> None:
        """Note that the deadline has passed."""
        self.is_late = True
        if self.sleeper is not None and not self.is_set:
            self.sleeper.wake(self.size)
