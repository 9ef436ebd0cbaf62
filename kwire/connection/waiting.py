"""A request in hand, whose response comes later: when something changes, or when work is done.

An answer that was given at once waits too where what it wrote has to be on the disk first; so does
one that comes later.
"""

from collections.abc import Coroutine
from types import CoroutineType
from typing import Any, Final, TypeAlias

from kwire.broker.flusher import Flusher
from kwire.handlers import Route
from kwire.handlers.waiting import Change, Unfinished
from kwire.protocol.frame import RequestHeader

Later: TypeAlias = Unfinished | Coroutine[Any, Any, Any]


COME_LATER: Final = (CoroutineType, Unfinished)
"""What a handler gives where it has no response yet."""


def held(response: Any, flusher: Flusher) -> Any:
    """A response that is there, or one that waits for the disk if this task has asked for that."""
    return response if type(response) in COME_LATER else flusher.hold(response)


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
        assert isinstance(self.response, Unfinished)
        if flusher.asked:
            flusher.forget()
        response = self.response.go_on()
        return held(response, flusher) if flusher.asked else response

    async def work(self, flusher: Flusher) -> Any:
        """Do what needs a task; the response, or what gives it later."""
        later = self.response
        response = await (later.work() if isinstance(later, Unfinished) else later)
        return held(response, flusher) if flusher.asked else response

    def close(self) -> None:
        """Nobody wants the response any more."""
        self.response.close()
