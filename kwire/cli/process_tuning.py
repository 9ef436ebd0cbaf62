"""Tuning of the process that only a broker's own process may have: collector, threads, signals.

Rules:

- The garbage collector is off while the server starts, because most objects of the start are kept.
  One second after the start it runs once and then ignores these objects. From then on it
  looks at few objects at a time (``kwire.cli.gc_tuning``).
- A thread gives the interpreter back to the event loop after a tenth of a millisecond.
- Modules that a broker usually doesn't need are deferred (``kwire.cli.deferred``).
- A signal ends the start (``start_server``), and if standard output is closed, the ready line
  goes to the log.
- After a clean stop the process ends at once (``end_process``); a signal that comes late is ignored
  (``late_signals_ignored``).
- ``restart_process`` runs the command from its beginning in the same process, for a service whose
  parts can't go on without it.
- A broker or a command with keys or passwords leaves no core dump, which would hold them.
- A broker that a test has started ends with the test: if ``KWIRE_ENDS_WITH_STDIN`` is set, the end
  of standard input has the effect of SIGTERM. The test's process holds the other end of that pipe,
  and the system closes it however the process dies.
"""

import atexit
import gc
import logging
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from kwire.cli.deferred import UNUSED_BY_A_BROKER, defer
from kwire.cli.output import drop_output

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    import trio

    from kwire.service import ServiceManager
    from kwire.web.token import AdminToken

log = logging.getLogger(__name__)

SETTLE_S = 1.0
"""How long after the start the collector runs: the first requests must not wait for it."""

SWITCH_INTERVAL_S = 0.0001
"""How long a thread may run Python code while the event loop is ready. Python's default of 5 ms
would be added to every request of every client while a thread decompresses, compiles or imports."""
ENDS_WITH_STDIN = "KWIRE_ENDS_WITH_STDIN"
STARTED_OVER = "KWIRE_STARTED_OVER"
"""The environment's variable with the time of the last ``restart_process``, by the steady clock."""

ONCE_IN_S = 30.0
"""A command that has to start over more often than that has a cause that a start doesn't mend."""

STOP_TIMEOUT_S = 30.0
"""How long a broker without its parent process may take for a clean stop."""


def tune_process() -> None:
    """Prepare the process, before any large import."""
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    defer(UNUSED_BY_A_BROKER)
    _raise_descriptor_limit()


def end_with_parent() -> None:
    """Stop when the standard input ends, if a test wants it; exit after ``STOP_TIMEOUT_S``.

    This starts a thread, so a process that forks calls it afterwards.
    """
    if not os.environ.get(ENDS_WITH_STDIN):
        return
    import signal
    import threading
    import time

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_TIMEOUT_S)
        os._exit(1)

    threading.Thread(target=wait, name="end of stdin", daemon=True).start()


def ending_signals() -> "list[signal.Signals]":
    """The signals that stop a broker cleanly; without SIGHUP under ``nohup``."""
    import signal

    ending = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    return ending


@contextmanager
def late_signals_ignored() -> "Iterator[list[int]]":
    """Nothing happens on signals that come after trio's receiver of them is closed.

    Else the Ctrl-C that comes once more would kill a process that has already stopped cleanly, just
    before it ends. Yields the signals that come before the receiver is open, for ``raise_again``.
    """
    import signal

    seen: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: seen.append(number))
        for number in ending_signals()
    }
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_again(early: list[int]) -> None:
    """Give the receiver, which is open now, the signals that came before."""
    import signal

    for number in early:
        signal.raise_signal(number)


async def ignore_signals(signals: "AsyncIterator[int]") -> None:
    """Ignore signals: a second Ctrl-C must not kill a process that is already stopping."""
    async for _ in signals:
        pass


def service_manager() -> "ServiceManager | None":
    """The service manager that has started this process and waits for messages, or None."""
    if not os.environ.get("NOTIFY_SOCKET"):
        return None
    from kwire.service import ServiceManager

    found = ServiceManager()
    found.starting()
    return found


async def start_server(
    nursery: "trio.Nursery",
    serve: "Callable[..., Awaitable[Any]]",
    signals: "AsyncIterator[int]",
    stop: "Callable[[], None]",
) -> None:
    """Start ``serve`` in ``nursery``, and wait until it is ready.

    A signal meanwhile calls ``stop``, which ends work in threads, and cancels the start. Raises
    LoadingStopped then.
    """
    import signal

    import trio

    from kwire.log.loading import LoadingStopped

    starting = trio.CancelScope()
    seen: list[int] = []

    async def end_the_start() -> None:
        seen.append(await anext(signals))
        stop()
        starting.cancel()
        async for _ in signals:  # a second Ctrl-C must not kill the process
            pass

    async with trio.open_nursery() as watching:
        watching.start_soon(end_the_start)
        with starting:
            await nursery.start(serve)
        watching.cancel_scope.cancel()
    if starting.cancelled_caught:
        raise LoadingStopped
    for number in seen:  # the signal came when the broker was just ready: the caller handles it
        signal.raise_signal(number)


def print_ready(
    ready: str, token: "AdminToken | None" = None, others: "Sequence[str]" = ()
) -> None:
    """Print the line that says that the broker is ready, then a new token and other lines.

    If standard output is closed, the line goes to the log, because clients are served nevertheless.
    """
    try:
        print(ready, flush=True)
        if token is not None and token.is_new:
            print(f"kwire http admin token: {token.text}", flush=True)
        for line in others:
            print(line, flush=True)
    except OSError as error:
        drop_output()
        log.warning("standard output cannot be written (%s): %s", error.strerror, ready)


def end_process(exit_code: int) -> NoReturn:
    """End the process after a clean stop, without freeing its objects one by one.

    Freeing them takes Python seconds when clients have made the broker keep millions of objects.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a process may be started without them
            with suppress(OSError):  # the readers have ended
                stream.flush()
    os._exit(exit_code)


def has_restarted() -> bool:
    """Whether this is not the first run of the command in this process."""
    return STARTED_OVER in os.environ


def may_restart() -> bool:
    """Whether the last ``restart_process`` is long ago, if there was one."""
    import time

    return time.monotonic() - float(os.environ.get(STARTED_OVER, "-inf")) >= ONCE_IN_S


def restart_process() -> NoReturn:
    """Run the command from its beginning.

    The process keeps its id, environment and standard streams, so its service manager goes on with
    it. All other files are closed, and threads end.
    """
    import time

    os.environ[STARTED_OVER] = str(time.monotonic())
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


async def freeze_objects_of_start() -> None:
    """When the server is ready: exclude the objects of the start from garbage collection.

    Then run the collector when it is due, until the task is canceled.
    """
    import trio

    from kwire.cli import gc_tuning

    await trio.sleep(SETTLE_S)
    gc.collect()
    gc.freeze()
    gc_tuning.collect_young_only()
    await gc_tuning.collect_rarely()


def _raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors to what the system allows this process."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def leave_no_dump() -> None:
    """Prevent core dumps of this process, as a file or into a pipe.

    Linux needs a limit of one byte for that: with 0, it still writes into a pipe (``core(5)``).
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 0 if hard == 0 else 1
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (limit, hard))
