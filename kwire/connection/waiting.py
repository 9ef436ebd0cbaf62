"""A request in hand, whose response comes later: when something changes, or when work is done.

An answer that was given at once waits too where what it wrote has to be on the disk first; so does
one that comes later.
"""

from collections.abc import Coroutine, Iterable
from types import CoroutineType
from typing import Any, Final, TypeAlias

from kwire.broker.flusher import Flush, Flusher
from kwire.handlers import Route
from kwire.handlers.waiting import Change, Unfinished
from kwire.protocol.frame import RequestHeader

Later: TypeAlias = Unfinished | Coroutine[Any, Any, Any]


COME_LATER: Final = (CoroutineType, Unfinished)
"""What a handler gives where it has no response yet."""


def held(response: Any, flusher: Flusher, before: Iterable[Flush] = ()) -> Any:
    """A response that is there, or one that waits for the disk if its request has asked for that.

    A request that isn't answered yet takes along what it has demanded: it may go on in another
    task. ``before`` are the demands of its earlier turns.
    """
    if type(response) is Unfinished:
        response.demands = response.demands.union(flusher.taken(), before)
        return response
    return response if type(response) is CoroutineType else flusher.hold(response, before)


class Waiting:
    """A request whose handler has to wait."""

    __slots__ = ("header", "response", "served_by")

    def __init__(self, served_by: Route, header: RequestHeader, response: Later) -> None:
        self.served_by = served_by
        self.header = header
        self.response = response

    @property
    def change(self) -> Change | None:
        """What it waits for, if that needs no task."""
        response = self.response
        if type(response) is Unfinished and type(response.waits_for) is Change:
            return response.waits_for
        return None

    def go_on(self, flusher: Flusher) -> Any:
        """After the change: the response, or what gives it later."""
        later = self.response
        assert isinstance(later, Unfinished)
        if flusher.asked:
            flusher.forget()
        response = later.go_on()
        demands = later.demands
        return held(response, flusher, demands) if flusher.asked or demands else response

    async def work(self, flusher: Flusher) -> Any:
        """Do what needs a task; the response, or what gives it later."""
        later = self.response
        if flusher.asked:
            flusher.forget()
        if isinstance(later, Unfinished):
            response = await later.work()
            demands = later.demands
            return held(response, flusher, demands) if flusher.asked or demands else response
        response = await later
        return held(response, flusher) if flusher.asked else response

    def close(self) -> None:
        """Nobody wants the response any more."""
        self.response.close()
