"""Settings of the process that only a process dedicated to a broker may change.

Rules:

- The garbage collector is off while the server starts, because most objects of the start are kept.
  One second after the start it runs once and then ignores these objects. From then on it runs
  rarely.
- A thread gives the interpreter back to the event loop after a tenth of a millisecond.
- Modules that a broker usually doesn't need are deferred (``kwire.cli.deferred``).
- After a clean stop the process ends at once (``leave``).
- A broker that a test has started ends with the test: if ``KWIRE_ENDS_WITH_STDIN`` is set, the end
  of standard input has the effect of SIGTERM. The test's process holds the other end of that pipe,
  and the system closes it however the process dies.
"""

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from kwire.cli.deferred import UNUSED_BY_A_BROKER, defer

SETTLE_S = 1.0
"""How long after the start the collector runs: the first requests must not wait for it."""

GC_THRESHOLDS = (50_000, 20, 50)

SWITCH_INTERVAL_S = 0.0001
"""How long a thread may run Python code while the event loop is ready. Python's default of 5 ms
would be added to every request of every client while a thread decodes one large request."""
ENDS_WITH_STDIN = "KWIRE_ENDS_WITH_STDIN"
STOP_TIMEOUT_S = 30.0
"""How long a broker without its parent process may take for a clean stop."""


def begin() -> None:
    """Prepare the process, before any large import."""
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    defer(UNUSED_BY_A_BROKER)
    _raise_descriptor_limit()
    if os.environ.pop(ENDS_WITH_STDIN, ""):
        _end_with_stdin()


def _end_with_stdin() -> None:
    """Stop when the standard input ends; exit after ``STOP_TIMEOUT_S`` even if not clean."""
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


def leave(exit_code: int) -> NoReturn:
    """End the process after a clean stop, without freeing its objects one by one.

    Freeing them takes Python seconds when clients have made the broker keep millions of objects.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a process may be started without them
            with suppress(OSError):  # nobody reads them any more
                stream.flush()
    os._exit(exit_code)


async def settle() -> None:
    """When the server is ready: exclude the objects of the start from garbage collection."""
    import trio

    await trio.sleep(SETTLE_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def _raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors to what the system allows this process."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
