"""What a process does for itself when it is a broker and nothing else.

Rules:

- Garbage is not collected while the server starts: what is made then stays. Once the first requests
  have had their turn the collector looks at all of it for the last time, and runs seldom from then
  on.
- The event loop gets the interpreter back from a thread after half a millisecond.
- Modules that no broker uses are put off (``kwire.cli.deferred``).
- A broker that a test has started ends with the test: where ``KWIRE_ENDS_WITH_STDIN`` is set, the
  end of the standard input means what SIGTERM means. The parent holds the other end of that pipe,
  and the system closes it however the parent dies.
"""

import gc
import os
import sys
from contextlib import suppress

from kwire.cli.deferred import UNUSED_BY_A_BROKER, defer

SETTLE_S = 1.0
"""How long after the start the collector begins: a start is followed by first requests."""

GC_THRESHOLDS = (50_000, 20, 50)

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may run Python code while the event loop waits to go on; Python's 5 ms would be
added to every request of every client for as long as one large request is decoded."""
ENDS_WITH_STDIN = "KWIRE_ENDS_WITH_STDIN"
STOP_TIMEOUT_S = 30.0
"""How long an orphan has for a clean stop."""


def begin() -> None:
    """Before anything large is imported."""
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    defer(UNUSED_BY_A_BROKER)
    _raise_descriptor_limit()
    if os.environ.pop(ENDS_WITH_STDIN, ""):
        _end_with_stdin()


def _end_with_stdin() -> None:
    """Stop when the standard input ends, cleanly if that works."""
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


async def settle() -> None:
    """Once the server is ready: take what the start made out of the collector's way."""
    import trio

    await trio.sleep(SETTLE_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def _raise_descriptor_limit() -> None:
    """Use as many file descriptors as the system allows this process."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
