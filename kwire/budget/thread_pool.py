"""One kind of work for threads, with a limit of its own; ``kwire.budget.threads`` has all kinds.

If the system refuses a new thread, the work waits until it has one: connections and other programs
take threads too, and give them back. Otherwise the error would end the broker, or a connection.
"""

import logging
from collections.abc import Callable
from traceback import walk_tb
from typing import TypeVar

import trio

log = logging.getLogger(__name__)

_T = TypeVar("_T")

PAUSE_S = 0.1
TRIES = 300


class ThreadPool:
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
        function may only compute, and change nothing that others see. Raises RuntimeError if the
        system has no thread for half a minute.
        """
        left = TRIES
        while True:
            try:
                result = await trio.to_thread.run_sync(
                    _outcome, function, args, limiter=self._limiter, abandon_on_cancel=abandon
                )
                break
            except RuntimeError as error:
                left -= 1
                if not left or not _is_refused(error):
                    raise
                if left == TRIES - 1:
                    log.warning("the system refuses a new thread (%s); work waits for it", error)
            await trio.sleep(PAUSE_S)
        if not isinstance(result, _Failed):
            return result
        failure = result.taken()
        try:
            raise failure
        finally:
            del failure  # or the error and this frame would refer to each other


class _Failed:
    """The error of a function in a thread."""

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error: Exception | None = error

    def taken(self) -> Exception:
        """The error, once. Frames of trio still have this object, and the error has the frames."""
        error, self._error = self._error, None
        assert error is not None
        return error


def _outcome(function: Callable[..., _T], args: tuple[object, ...]) -> "_T | _Failed":
    """The function's result or its error; called in the thread.

    If trio raised the error itself, the error and a frame of trio would refer to each other. Only a
    full collection would free them, and the request of the client to which the error goes.
    """
    try:
        return function(*args)
    except Exception as error:
        return _Failed(error)


def _is_refused(error: RuntimeError) -> bool:
    """Whether no thread could be started, so that the function hasn't begun."""
    names = [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)]
    return "start_thread_soon" in names
