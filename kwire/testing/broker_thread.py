"""A thread with an event loop of its own, in which test brokers run, one after the other.

Rules:

- Any other thread may make the calls, even a thread in which trio or asyncio runs. A call blocks
  until the event loop has answered, at most for the time that the caller gives.
- If a broker isn't ready in time, the error shows where it hangs: the stacks of the threads, and
  the end of the log.
- The thread is a daemon: it never keeps a process from ending.
"""

import select
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress

import trio

from kwire.server import Server, StartError
from kwire.testing.broker_log import BrokerLog
from kwire.testing.clock import EventLoopClock, steps_ms
from kwire.testing.process import LOG_TAIL_LINES, BrokerFailed

NO_EPOLL = (
    "gevent has taken select.epoll away, which the broker's event loop needs: use the fixture "
    "kafka_process (KafkaProcess), or gevent.monkey.patch_all(select=False, thread=False)"
)
CALL_TIMEOUT_S = 10.0
PASSING_TIMEOUT_S = 60.0
SETTLING_PAUSE_S = 0.001
STACK_FRAMES = 6
WORKERS = "_thread_cache.py"
"""A part of the stack of each thread that works for an event loop of trio."""


class Serving:
    """A server that runs in the thread, until ``ended``."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.scope = trio.CancelScope()
        self.ready: Future[None] = Future()
        self.ended = threading.Event()
        self.has_ended = trio.Event()
        self.error: BaseException | None = None

    async def run(self) -> None:
        """Serve to the end; the error, if there is one, is kept."""
        try:
            with self.scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(self.server.serve)
                    self.ready.set_result(None)
        except Exception as error:
            self.error = _first(error)
        finally:
            if not self.ready.done():
                self.ready.set_exception(self.error or BrokerFailed("the start was cancelled"))
            self.has_ended.set()
            self.ended.set()

    async def settle(self) -> None:
        """Wait until the server has nothing to do, also not in a thread or a process."""
        from trio.testing import wait_all_tasks_blocked

        looks = 0
        while looks < 2:  # a task whose thread has just ended shows itself at the second look
            await wait_all_tasks_blocked()
            looks += 1
            if self._is_at_work():
                looks = 0
                await trio.sleep(SETTLING_PAUSE_S)

    def _is_at_work(self) -> bool:
        broker = self.server.broker
        is_compacting = hasattr(broker, "compaction") and bool(broker.compaction.workers)
        return is_compacting or broker.threads.running > 0


class BrokerThread:
    """The thread; it begins with ``begin`` and ends with ``end``.

    It calls ``at_end`` itself, even if it hung and ends late.
    """

    def __init__(self, log: BrokerLog) -> None:
        self.at_end: Callable[[], object] = lambda: None
        self._log = log
        self._clock = EventLoopClock()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery
        self._has_begun: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="kwire test broker", daemon=True)

    def begin(self, timeout_s: float) -> None:
        """Start the thread, and wait until its event loop runs."""
        if sys.platform == "linux" and not hasattr(select, "epoll"):
            raise BrokerFailed(NO_EPOLL)
        self._thread.start()
        self._wait(self._has_begun, timeout_s, "event loop of the broker was not there")

    def end(self, timeout_s: float) -> None:
        """End the event loop and the thread, and every broker in it, as a kill would."""
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(lambda: self._nursery.cancel_scope.cancel())
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                raise BrokerFailed(self._hangs(f"the broker had not ended after {timeout_s:g} s"))

    def start(self, server: Server, timeout_s: float, old: Serving | None = None) -> Serving:
        """Run a server, and wait until it is ready; BrokerFailed says why it isn't.

        An ``old`` server ends first, as by a kill. So the calling thread has to wait only once.
        """
        serving = Serving(server)

        async def run() -> None:
            if old is not None:
                old.scope.cancel()
                await old.has_ended.wait()
            await serving.run()

        self._soon(lambda: self._nursery.start_soon(run))
        try:
            self._wait(serving.ready, timeout_s, "broker was not ready")
        except BrokerFailed:
            self._soon(serving.scope.cancel)
            raise
        except StartError as error:
            raise BrokerFailed(f"the broker can't start: {error}") from error
        return serving

    def stop(self, serving: Serving, timeout_s: float, *, clean: bool) -> None:
        """End a server and wait for its end: a clean stop, or an end as by a kill."""
        if not serving.ended.is_set():
            self._soon(serving.server.stop if clean else serving.scope.cancel)
        if not serving.ended.wait(timeout_s):
            raise BrokerFailed(self._hangs(f"the broker had not ended after {timeout_s:g} s"))

    def call(self, function: Callable[[], object], timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Call a function in the event loop, and wait until it has returned."""
        called: Future[None] = Future()

        def call() -> None:
            try:
                function()
            except Exception as error:
                called.set_exception(error)
            else:
                called.set_result(None)

        self._soon(call)
        self._wait(called, timeout_s, "event loop of the broker did not answer")

    def run_beside(self, function: Callable[[], Awaitable[object]]) -> Callable[[], None]:
        """Run a coroutine beside the servers, until the function that is returned is called.

        It ends with the thread at the latest.
        """
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await function()

        self.call(lambda: self._nursery.start_soon(run))
        return lambda: self.call(scope.cancel)

    def pass_time(
        self, span_ms: int, pass_ms: Callable[[int], None], serving: Serving | None
    ) -> None:
        """Put the event loop's time ahead, and wait until a server has done what is due by then.

        ``pass_ms`` is called in each step, to put ahead the clock that the server has besides.
        """
        has_passed: Future[None] = Future()

        async def run() -> None:
            for step_ms in steps_ms(span_ms):
                self._clock.ahead_s += step_ms / 1000
                pass_ms(step_ms)
                if serving is not None and not serving.ended.is_set():
                    await serving.settle()
            has_passed.set_result(None)

        self._soon(lambda: self._nursery.start_soon(run))
        self._wait(has_passed, PASSING_TIMEOUT_S, "broker had still work that was due")

    def _run(self) -> None:
        self._log.own_this_context()
        try:
            trio.run(self._main, clock=self._clock)
        except BaseException as error:
            self._log.add("".join(traceback.format_exception(error)))
            if not self._has_begun.done():
                self._has_begun.set_exception(BrokerFailed(f"no event loop: {error!r}"))
        finally:
            self.at_end()

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._has_begun.set_result(None)
            await trio.sleep_forever()

    def _soon(self, function: Callable[[], object]) -> None:
        assert self._token is not None
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    def _wait(self, future: "Future[None]", timeout_s: float, what: str) -> None:
        try:
            future.result(timeout_s)
        except TimeoutError:
            raise BrokerFailed(self._hangs(f"the {what} after {timeout_s:g} s")) from None

    def _hangs(self, what: str) -> str:
        """A text with what has happened, the stacks of the threads, and the broker's log."""
        frames = sys._current_frames()
        stacks = []
        for thread in threading.enumerate():
            frame = frames.get(thread.ident or 0)
            lines = [] if frame is None else traceback.format_stack(frame)
            if thread is self._thread or any(WORKERS in line for line in lines):
                lines = lines[-STACK_FRAMES:]
                stacks.append(f"thread {thread.name!r}:\n{''.join(lines).rstrip()}")
        tail = "\n".join(self._log.text().splitlines()[-LOG_TAIL_LINES:])
        return "\n".join([f"{what}; it is here:", *stacks, f"the end of its log:\n{tail or '-'}"])


def _first(error: BaseException) -> BaseException:
    """The first error in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
