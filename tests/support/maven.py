"""One Maven at a time: two that fetch into one local repository may spoil each other's files."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = Path(__file__).parents[2] / ".cache" / "maven.lock"


@contextmanager
def one_maven() -> Iterator[None]:
    """Nobody else fetches jars for this checkout in the ``with`` block."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
