"""Ports for servers of tests that have to know their port before they listen."""

import random
import socket
from contextlib import ExitStack

PORTS = range(10_000, 32_768)
"""Linux gives clients higher ports, so no client takes one of these before the server listens."""

_random = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, and that this process wasn't given before."""
    while True:
        port = _random.choice(PORTS)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port


def free_ports(count: int, apart: int = 10_000) -> int:
    """The first of so many free ports in a row, with as many more above them at this distance."""
    for _ in range(1000):
        first = _random.choice(range(PORTS.start, PORTS.stop - apart - count))
        with ExitStack() as stack:
            try:
                for port in (
                    *range(first, first + count),
                    *range(first + apart, first + apart + count),
                ):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise OSError("there are no free ports in a row")
