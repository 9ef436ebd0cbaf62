"""Connections that were ready in a pass of the event loop, but have to wait for the next pass.

Rules:

- The connections that have used the least time are served first (``Turns.rank``). Of connections
  with equal times, the one that has waited longest is first.
- Every ``OLDEST_EVERY``-th pass begins with the connection that has waited longest. Otherwise a
  client that has used more time would wait as long as other clients bring new connections.
"""

from selectors import SelectorKey
from typing import Protocol, TypeAlias

from kwire.budget.order import OLDEST_EVERY
from kwire.budget.work import Turns

Ready: TypeAlias = list[tuple[SelectorKey, int]]
"""The connections that are ready, each with its events."""


class Watched(Protocol):
    """A socket that the poller calls when the socket is readable."""

    def fileno(self) -> int:
        """The descriptor of the socket."""

    @property
    def used_s(self) -> float:
        """The time that the socket's requests have taken so far."""

    def charge(self, spent_s: float) -> None:
        """Count the time of one call below."""

    def on_readable(self) -> None:
        """Handle the bytes or the connection that have arrived."""


class Crowd:
    """The descriptors of the connections that wait."""

    def __init__(self) -> None:
        self._waiting: dict[int, None] = {}  # the longest first
        self._left: dict[int, None] = {}  # by the last pass
        self._passes = 0

    def leave(self, ready: Ready, first_fd: int) -> None:
        """Note the connections that a pass leaves, from the one with this descriptor on."""
        fds = [key.fd for key, _ in ready]
        self._left.update(dict.fromkeys(fds[fds.index(first_fd) :]))

    def in_order(self, ready: Ready, turns: Turns) -> Ready:
        """The connections that are ready now, in the order in which they are served."""
        left, self._left = self._left, {}
        self._waiting = {fd: None for fd in self._waiting if fd in left} | left
        events = {event[0].fd: event for event in ready}
        longest = [events.pop(fd) for fd in self._waiting if fd in events]
        order = longest + list(events.values())
        self._passes += 1
        first = order[: self._passes % OLDEST_EVERY == 0]
        rest = order[len(first) :]
        rest.sort(key=lambda event: turns.rank(event[0].data.used_s))
        return first + rest
