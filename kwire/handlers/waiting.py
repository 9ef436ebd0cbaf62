"""Handlers that nearly always answer at once, and wait now and then.

``handle = at_once_or_later(_handle(request, context))``: the coroutine is run on the spot, and when
it comes to its end without waiting its result is the response. Where it waits, it does so by
``await later(…)``; then the response is another coroutine that goes on from there.

Rules: such a coroutine awaits nothing but ``later`` and others like itself, for the task it begins
in isn't the one in which it waits.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")

Job = Callable[[], Awaitable[Any]]


@coroutine
def later(job: Callable[[], Awaitable[_T]]) -> Generator[Job, _T, _T]:
    """Wait for ``job()``; its result."""
    return (yield job)


def at_once_or_later(begun: Coroutine[Job, Any, _T]) -> _T | Coroutine[Any, Any, _T]:
    """The result of a coroutine, or a coroutine of it where it has to wait."""
    try:
        job = begun.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    return _go_on(begun, job)


async def _go_on(begun: Coroutine[Job, Any, _T], job: Job) -> _T:
    while True:
        try:
            try:
                result = await job()
            except BaseException as error:
                job = begun.throw(error)
            else:
                job = begun.send(result)
        except StopIteration as done:
            value: _T = done.value
            return value
