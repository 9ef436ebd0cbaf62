"""Ports for servers of tests that have to know their port before they listen.

Processes of tests run side by side, so what each was given is written in one file for all of them:
a line with its process and the port. The lines of processes that have ended don't count.
"""

import fcntl
import os
import random
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

PORTS = range(10_000, 32_768)
"""Linux gives clients higher ports, so no client takes one of these before the server listens."""
GIVEN = Path("/tmp") / f"kwire-test-ports-{os.getuid()}"
"""Not in TMPDIR, which some tests have of their own."""

_random = random.SystemRandom()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, and that no running process was given."""
    return _take([port] for port in iter(lambda: _random.choice(PORTS), None))


def free_ports(count: int, apart: int = 10_000) -> int:
    """The first of so many free ports in a row, with as many more above them at this distance."""
    firsts = (_random.choice(range(PORTS.start, PORTS.stop - apart - count)) for _ in range(1000))
    return _take(
        [*range(first, first + count), *range(first + apart, first + apart + count)]
        for first in firsts
    )


def _take(choices: Iterable[list[int]]) -> int:
    """The first port of the first choice whose ports are all free; OSError without one."""
    with GIVEN.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        entries = [line.split() for line in file.read().splitlines()]
        lines = [f"{pid} {port}\n" for pid, port in entries if Path("/proc", pid).exists()]
        given = {int(line.split()[1]) for line in lines}
        for ports in choices:
            if given.isdisjoint(ports) and _nobody_listens(ports):
                lines += [f"{os.getpid()} {port}\n" for port in ports]
                file.truncate(0)
                file.writelines(lines)
                return ports[0]
    raise OSError("there are no free ports in a row")


def _nobody_listens(ports: list[int]) -> bool:
    with ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
