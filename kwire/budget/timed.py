"""Times a coroutine: the steps in which the event loop works on it, and not its waits."""

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class Timer(Protocol):
    """Counts the time from each ``resume`` to the next ``rest``."""

    def resume(self) -> None:
        """The event loop begins a step."""

    def rest(self) -> None:
        """The event loop has done a step."""


@coroutine
def timed(work: Coroutine[Any, Any, _T], timer: Timer) -> Generator[Any, Any, _T]:
    """Run ``work``, and have its steps timed."""
    result: Any = None
    error: BaseException | None = None
    while True:
        timer.resume()
        try:
            awaited = work.send(result) if error is None else work.throw(error)
        except StopIteration as done:
            value: _T = done.value
            return value
        finally:
            timer.rest()
        error = None
        try:
            result = yield awaited
        except BaseException as raised:
            error = raised
