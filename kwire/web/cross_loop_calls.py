"""Calls from the HTTP port's event loop into the broker's, and their results back.

Rules:

- A call is an ``async`` function that runs in the broker's loop, in ``kwire.budget.slices``.
- One call runs at a time, so that many HTTP clients cost the broker no more than one.
- A call without a result within ``ANSWER_S`` is given up, on both sides. So is one whose client is
  gone, and only then does the next one begin.
- The HTTP port calls from the start of the broker to its end. ``Observed`` knows whether the broker
  starts, serves or stops.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

import trio

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.connection.poller import Poller

ANSWER_S = 10.0

_P = ParamSpec("_P")
_T = TypeVar("_T")


class NotServing(Exception):
    """The broker can't answer; the text says why."""


class Observed:
    """The parts of the server that the HTTP port reads; only the broker's loop may use it.

    ``not_serving`` says why the broker isn't serving, and is empty while it is. ``broker`` and
    ``poller`` raise NotServing until the server has set them.
    """

    def __init__(self) -> None:
        self.not_serving = "the broker is starting"
        self.problems: list[Callable[[], str]] = []
        """Each says in one line what is wrong beside the broker; an empty line for nothing."""
        self._broker: Broker | None = None
        self._poller: Poller | None = None

    def serves(self, broker: "Broker", poller: "Poller") -> None:
        """Note that the listeners are open, and begin to count requests."""
        self._broker, self._poller = broker, poller
        broker.counters.is_on = True
        self.not_serving = ""

    def stops(self) -> None:
        """Note that the broker is stopping."""
        self.not_serving = "the broker is stopping"

    @property
    def broker(self) -> "Broker":
        """The broker; NotServing until it serves."""
        if self._broker is None:
            raise NotServing(self.not_serving)
        return self._broker

    @property
    def poller(self) -> "Poller":
        """The connections of the broker; NotServing until it serves."""
        if self._poller is None:
            raise NotServing(self.not_serving)
        return self._poller


class _Result(Generic[_T]):
    """The result of one call, or its error; ``token`` belongs to the loop that has called."""

    def __init__(self) -> None:
        self.is_there = trio.Event()
        self.value: _T | None = None
        self.error: Exception | None = NotServing("the broker has ended")
        self._token = trio.lowlevel.current_trio_token()

    def wake_caller(self) -> None:
        """Wake the loop that has called, unless it has ended meanwhile."""
        try:
            self._token.run_sync_soon(self.is_there.set)
        except trio.RunFinishedError:
            return


class BrokerCalls:
    """Calls the broker. Made in the broker's loop, whose ``nursery`` runs the calls.

    ``steady_ms`` is the broker's steady clock, for the HTTP port's own durations.
    """

    def __init__(
        self, observed: Observed, nursery: trio.Nursery, steady_ms: Callable[[], int]
    ) -> None:
        self.steady_ms = steady_ms
        self._observed = observed
        self._nursery = nursery
        self._broker_token = trio.lowlevel.current_trio_token()
        self._one_at_a_time = trio.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Run no more calls; used in the broker's loop before the nursery ends."""
        self._is_closed = True

    async def run(
        self,
        gather: Callable[Concatenate[Observed, _P], Awaitable[_T]],
        *arguments: _P.args,
        **more: _P.kwargs,
    ) -> _T:
        """The result of ``gather(observed, …)`` in the broker's loop, or its error.

        Raises NotServing if the broker doesn't serve or gives no answer in time.
        """
        async with self._one_at_a_time:
            return await self._run(lambda: gather(self._observed, *arguments, **more))

    async def loop_turn_s(self) -> float:
        """How long one turn of the broker's loop took, in seconds; NotServing if there is none."""

        async def nothing() -> None:
            return

        begin_s = perf_counter()
        await self._run(nothing)
        return perf_counter() - begin_s

    async def _run(self, call: Callable[[], Awaitable[_T]]) -> _T:
        result: _Result[_T] = _Result()
        is_wanted = trio.CancelScope()

        async def run_call() -> None:
            try:
                with is_wanted, trio.fail_after(ANSWER_S):
                    result.value = await call()
                    result.error = None
            except trio.TooSlowError:
                result.error = NotServing(f"the broker gave no answer within {ANSWER_S:g} s")
            except Exception as error:
                result.error = error
            finally:
                result.wake_caller()

        def start_call() -> None:
            if self._is_closed:
                result.wake_caller()
            else:
                self._nursery.start_soon(run_call)

        try:
            self._broker_token.run_sync_soon(start_call)
            with trio.fail_after(ANSWER_S):
                await result.is_there.wait()
        except trio.RunFinishedError:
            raise NotServing("the broker has ended") from None
        except trio.TooSlowError:
            why = f"the broker's event loop gave no answer within {ANSWER_S:g} s"
            raise NotServing(why) from None
        except trio.Cancelled:
            with suppress(trio.RunFinishedError):
                self._broker_token.run_sync_soon(is_wanted.cancel)
                with trio.move_on_after(ANSWER_S, shield=True):
                    await result.is_there.wait()
            raise
        if result.error is not None:
            raise result.error
        return result.value  # type: ignore[return-value]
