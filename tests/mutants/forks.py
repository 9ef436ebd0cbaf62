"""Processes that are forked from this one: they have its modules, and change nothing in it."""

import contextlib
import multiprocessing
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from pathlib import Path
from typing import Any

MEMORY_BYTES = 4 << 30
IN_MEMORY = Path("/dev/shm")
FORK = multiprocessing.get_context("fork")


def in_children(jobs: int, works: Iterable[Callable[[], object]]) -> Iterator[None]:
    """Do works, each in a process of its own and so many at a time; yields when one has ended."""
    running: dict[int, Any] = {}
    for work in works:
        process = FORK.Process(target=work)
        process.start()
        running[process.sentinel] = process
        while len(running) == jobs:
            yield from _ended(running)
    while running:
        yield from _ended(running)


def _ended(running: dict[int, Any]) -> Iterator[None]:
    """Wait for the first of them."""
    for sentinel in connection.wait(list(running)):
        assert isinstance(sentinel, int)
        running.pop(sentinel).join()
        yield


def contained(work: Callable[[], object], directory: Path) -> int:
    """Do work in a process that a bug can't leave; its exit code, negative for a signal.

    It has so much memory, its temporary files and what it says are in ``directory``, and what it
    has started ends with it.
    """
    process: Any = FORK.Process(target=_contain, args=(work, directory))
    process.start()
    try:
        process.join()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.exitcode is not None
    return int(process.exitcode)


def _contain(work: Callable[[], object], directory: Path) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with Path(os.devnull).open("rb") as nothing, (directory / "said").open("ab") as said:
        os.dup2(nothing.fileno(), 0)
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    os.environ |= {"TMPDIR": str(directory), "PYTEST_DEBUG_TEMPROOT": str(directory)}
    tempfile.tempdir = None
    work()
    os._exit(0)


def temporary() -> tempfile.TemporaryDirectory[str]:
    """A directory for a process, in memory where there is one."""
    place = IN_MEMORY if IN_MEMORY.is_dir() else None
    return tempfile.TemporaryDirectory(dir=place, prefix="mutant-", ignore_cleanup_errors=True)
