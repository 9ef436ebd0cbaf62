"""Handlers that nearly always answer at once, and sometimes wait.

``at_once_or_later(handle(request, context))`` runs the coroutine of a handler on the spot. If the
coroutine ends without waiting, its result is the response. If it waits, the response is
``Unfinished``, and the coroutine continues from there. It may wait for two kinds of things:

- ``await later(job)`` waits for work, like a read from the disk. This wait needs a task.
- ``await happens(change)`` waits until other code calls ``change.set()``, or until the deadline
  (``kwire.broker.delayed``). This wait needs no task: the coroutine rests, and its connection
  resumes it. Produce waits for its replicas in the same way (``acknowledged``).

Rules:

- A handler that awaits other things, such as a commit of metadata, is ``in_task`` as a whole.
- Such a coroutine awaits only ``later``, ``happens`` and other coroutines of this kind, because it
  may begin in one task and continue in another.
- A coroutine that waits for a change holds no views of its request's frame, because the buffer of
  the frame is used again.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import wraps
from inspect import iscoroutinefunction
from types import coroutine
from typing import Any, Protocol, TypeAlias, TypeVar

from kwire.broker.delayed import Delayed
from kwire.broker.delayed_produce import DelayedProduce

_T = TypeVar("_T")
_Q = TypeVar("_Q")
_C = TypeVar("_C")


Job: TypeAlias = Callable[[], Awaitable[Any]]
Wait: TypeAlias = Job | Delayed


@coroutine
def later(job: Callable[[], Awaitable[_T]]) -> Generator[Wait, _T, _T]:
    """Wait for ``job()``; return its result."""
    return (yield job)


def in_task(
    handle: Callable[[_Q, _C], Awaitable[_T]],
) -> Callable[[_Q, _C], Coroutine[Any, Any, _T]]:
    """Makes a handler run in a task from its beginning: it may await anything of trio's."""

    @wraps(handle)
    async def begun(request: _Q, context: _C) -> _T:
        return await later(lambda: handle(request, context))

    return begun


@coroutine
def happens(change: Delayed) -> Generator[Wait, None, bool]:
    """Wait for a change, unless it has happened already; False at the deadline."""
    while not (change.is_set or change.is_late):
        yield change
    has_happened, change.is_set = change.is_set, False
    return has_happened


@coroutine
def acknowledged(produce: DelayedProduce) -> Generator[Wait, None, None]:
    """Wait until every slot is settled or time is up; give up if the handler is dropped."""
    try:
        while not produce.is_set:
            yield produce
    finally:
        produce.give_up()


_NOTHING: frozenset[Any] = frozenset()


class Begun(Protocol):
    """A handler's coroutine, or an object that is resumed like one."""

    def send(self, result: Any, /) -> Wait:
        """Go on; what to wait for next. Raises StopIteration with the response at the end."""

    def throw(self, error: BaseException, /) -> Wait:
        """Go on with an error of the work that was waited for; otherwise like ``send``."""

    def close(self) -> None:
        """Drop the handler."""


class Unfinished:
    """A handler's coroutine, and what it waits for.

    ``demands`` are the flushes that its response has to wait for (``broker.flusher``).
    """

    __slots__ = ("_begun", "demands", "waits_for")

    def __init__(self, begun: Begun, waits_for: Wait) -> None:
        self._begun = begun
        self.waits_for = waits_for
        self.demands: frozenset[Any] = _NOTHING

    def go_on(self, result: Any = None) -> Any:
        """Resume the coroutine; return the response, or this object if it waits again."""
        try:
            self.waits_for = self._begun.send(result)
        except StopIteration as done:
            return done.value
        return self

    def go_on_with(self, error: BaseException) -> Any:
        """Raise an error in the coroutine; return as ``go_on`` does."""
        try:
            self.waits_for = self._begun.throw(error)
        except StopIteration as done:
            return done.value
        return self

    async def work(self) -> Any:
        """Do the work that needs a task; the response, or this object if a change is awaited."""
        while not isinstance(self.waits_for, Delayed):
            try:
                result = await self.waits_for()
            except BaseException as error:
                response = self.go_on_with(error)
            else:
                response = self.go_on(result)
            if response is not self:
                return response
        return self

    def close(self) -> None:
        """Drop the coroutine, because the client can't get the response any more."""
        self._begun.close()


def begun_at_once(handle: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A handler whose result is the response, or ``Unfinished``."""
    if not iscoroutinefunction(handle):
        return handle
    return lambda request, context: at_once_or_later(handle(request, context))


def at_once_or_later(begun: Coroutine[Wait, Any, _T]) -> _T | Unfinished:
    """The result of a coroutine; if it has to wait, the unfinished coroutine."""
    try:
        waits_for = begun.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    # What trio's own functions wait for would need a task from the beginning (``in_task``).
    assert callable(waits_for) or isinstance(waits_for, Delayed), waits_for
    return Unfinished(begun, waits_for)
