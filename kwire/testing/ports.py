"""Ports for servers of tests that have to know their port before they listen."""

import random
import socket

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
