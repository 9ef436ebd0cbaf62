"""Handlers that nearly always answer at once, and wait now and then.

``handle = at_once_or_later(_handle(request, context))``: the coroutine is run on the spot, and when
it comes to its end without waiting its result is the response. Where it waits the response is
``Unfinished``, and the coroutine goes on from there. It may wait for two kinds of things:

- ``await later(job)``: something that has to be done, like a read from the disk. It needs a task.
- ``await happens(change)``: that somebody says ``change.set()``, or time is up. It needs none: who
  waits is a coroutine at rest, and the connection has it go on when it is woken. Kafka calls such a
  request a DelayedOperation.

Rules:

- Such a coroutine awaits nothing but these and others like itself, for the task it begins in isn't
  the one in which it goes on.
- One that waits for a change holds no views of its request's frame: the buffer that the frame lies
  in is used again.
"""

import math
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

_T = TypeVar("_T")


class Sleeper(Protocol):
    """Who has a coroutine go on when its change has happened."""

    def wake(self, units: int) -> None:
        """It has happened, or time is up; called once until the coroutine has gone on.

        ``units`` is what going on costs.
        """


class Change:
    """What a handler waits for, until ``deadline_s`` by trio's clock.

    It may happen again and again; while nobody looks, many times are as good as one. ``is_timed``
    is for who watches the deadline. ``units`` is what going on costs, such as the number of
    partitions to look at.
    """

    __slots__ = ("deadline_s", "is_late", "is_set", "is_timed", "sleeper", "units")

    def __init__(self, deadline_s: float = math.inf, units: int = 1) -> None:
        self.deadline_s = deadline_s
        self.units = units
        self.is_set = False
        self.is_late = False
        self.is_timed = False
        self.sleeper: Sleeper | None = None

    def set(self) -> None:
        """It has happened."""
        if not self.is_set:
            self.is_set = True
            if self.sleeper is not None and not self.is_late:
                self.sleeper.wake(self.units)

    def time_is_up(self) -> None:
        """It won't be waited for any longer."""
        self.is_late = True
        if self.sleeper is not None and not self.is_set:
            self.sleeper.wake(self.units)


Job: TypeAlias = Callable[[], Awaitable[Any]]
Wait: TypeAlias = Job | Change


@coroutine
def later(job: Callable[[], Awaitable[_T]]) -> Generator[Wait, _T, _T]:
    """Wait for ``job()``; its result."""
    return (yield job)


@coroutine
def happens(change: Change) -> Generator[Wait, None, bool]:
    """Wait for a change, if it hasn't happened yet; False when time is up."""
    while not (change.is_set or change.is_late):
        yield change
    has_happened, change.is_set = change.is_set, False
    return has_happened


_NOTHING: frozenset[Any] = frozenset()


class Unfinished:
    """A handler's coroutine, and what it waits for.

    ``demands`` are what has to be on the disk before its response is sent (``broker.flusher``).
    """

    __slots__ = ("_begun", "demands", "waits_for")

    def __init__(self, begun: Coroutine[Wait, Any, Any], waits_for: Wait) -> None:
        self._begun = begun
        self.waits_for = waits_for
        self.demands: frozenset[Any] = _NOTHING

    def go_on(self, result: Any = None) -> Any:
        """Go on with what was waited for; the response, or itself when it waits again."""
        try:
            self.waits_for = self._begun.send(result)
        except StopIteration as done:
            return done.value
        return self

    def _go_on_with(self, error: BaseException) -> Any:
        try:
            self.waits_for = self._begun.throw(error)
        except StopIteration as done:
            return done.value
        return self

    async def work(self) -> Any:
        """Do what needs a task; the response, or itself when it waits for a change."""
        while not isinstance(self.waits_for, Change):
            try:
                result = await self.waits_for()
            except BaseException as error:
                response = self._go_on_with(error)
            else:
                response = self.go_on(result)
            if response is not self:
                return response
        return self

    def close(self) -> None:
        """Nobody wants the response any more."""
        self._begun.close()


class Slow(NamedTuple):
    """What a fast path gives later instead of a response: the request's slow twin has to serve it.

    ``frame`` is a copy; the body begins at ``position``.
    """

    frame: memoryview
    position: int


def at_once_or_later(begun: Coroutine[Wait, Any, _T]) -> _T | Unfinished:
    """The result of a coroutine, or where it has to wait the rest of it."""
    try:
        waits_for = begun.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    return Unfinished(begun, waits_for)
