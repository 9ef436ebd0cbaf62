"""One kind of work for threads, with a limit of its own; ``kwire.budget.threads`` has all kinds."""

from collections.abc import Callable
from typing import TypeVar

import trio

_T = TypeVar("_T")


class Kind:
    """The threads of one kind of work: at most ``limit`` run at a time, in order of arrival."""

    __slots__ = ("_limiter",)

    def __init__(self, limit: int) -> None:
        self._limiter = trio.CapacityLimiter(limit)

    @property
    def running(self) -> int:
        """How many threads of this kind are at work."""
        return self._limiter.statistics().borrowed_tokens

    async def run(self, function: Callable[..., _T], *args: object, abandon: bool = False) -> _T:
        """Run ``function(*args)`` in a thread; return its result or raise its error.

        If this call is cancelled, it waits for the thread. With ``abandon`` it doesn't: then the
        function may only compute, and change nothing that others see.
        """
        return await trio.to_thread.run_sync(
            function, *args, limiter=self._limiter, abandon_on_cancel=abandon
        )
