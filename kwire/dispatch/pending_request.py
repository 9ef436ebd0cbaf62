"""A request in hand whose response comes later: after a change, or when work is done.

If a handler's appends have to be on the disk first, its response waits for the disk, too, whether
the handler answered at once or later. If the response rests on a coordinator's records, it waits
until other brokers have these records.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import CoroutineType
from typing import Any, Final, TypeAlias

from kwire.broker.delayed import Delayed
from kwire.broker.delayed_produce import DelayedProduce
from kwire.broker.flusher import Demand, Flush, Flusher
from kwire.budget.thread_pool import ThreadPool
from kwire.dispatch.routes import Route
from kwire.handlers.lib.waiting import Unfinished, at_once_or_later
from kwire.protocol.frame import RequestHeader

Later: TypeAlias = Unfinished | Coroutine[Any, Any, Any]


COME_LATER: Final = (CoroutineType, Unfinished)
"""The types that a handler may return in place of a response that it doesn't have yet."""


def held(response: Any, flusher: Flusher, before: Iterable[Demand] = ()) -> Any:
    """The response, or an object that first waits for the request's flushes and replications.

    An unfinished request keeps its demands, because it may continue in another task. ``before`` are
    the demands of its earlier turns.
    """
    if type(response) is Unfinished:
        response.demands = response.demands.union(flusher.taken(), before)
        return response
    if type(response) is CoroutineType:
        return response
    demands = flusher.taken().union(before)
    flushes = {one for one in demands if isinstance(one, Flush)}
    if len(flushes) == len(demands):
        return flusher.hold(response, flushes)
    from kwire.handlers.lib.delayed_response import delayed_response

    return at_once_or_later(delayed_response(response, demands))


class Waiting:
    """A request whose handler waits."""

    __slots__ = ("header", "response", "served_by")

    is_request = True
    """False for a pause, which takes the place of a request in hand."""

    def __init__(self, served_by: Route, header: RequestHeader, response: Later) -> None:
        self.served_by = served_by
        self.header = header
        self.response = response

    @property
    def change(self) -> Delayed | None:
        """What the request waits for; None if its wait needs a task."""
        response = self.response
        if type(response) is Unfinished:
            awaited = response.waits_for
            if isinstance(awaited, Delayed):
                return awaited
        return None

    @property
    def is_acknowledged(self) -> bool:
        """Whether the request has waited for replicas, and the wait is over."""
        change = self.change
        return type(change) is DelayedProduce and change.is_set

    def go_on(self, flusher: Flusher) -> Any:
        """Resume the handler after the change; the response, or an object that gives it later."""
        later = self.response
        assert isinstance(later, Unfinished)
        if flusher.asked:
            flusher.forget()
        response = later.go_on()
        demands = later.demands
        return held(response, flusher, demands) if flusher.asked or demands else response

    async def work(self, flusher: Flusher) -> Any:
        """Do the work that needs a task; return the response, or an object that gives it later."""
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
        """Drop the handler, because the client can't get the response any more."""
        self.response.close()


class FirstUse(Waiting):
    """Takes the place of a request in hand: ``frame`` is served after ``is_loaded``."""

    __slots__ = ("frame", "is_loaded")

    def __init__(
        self, is_loaded: Callable[[ThreadPool], Awaitable[None]], frame: memoryview
    ) -> None:
        self.is_loaded = is_loaded
        self.frame = frame

    @property
    def change(self) -> None:
        """None: the wait needs a task."""
        return None

    def close(self) -> None:
        """Drop the request, because its connection has ended."""
