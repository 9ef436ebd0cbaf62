"""A hostile client that sends the same requests again and again, on one or several connections.

``python -m bench.attacker HOST:PORT CONNECTIONS FILE`` runs until it is stopped. The file holds
frames, one after the other. Each connection sends one frame, reads the whole response, and sends
the next. A connection that the broker closes is replaced by a new one. On SIGTERM the program
prints JSON: the number of responses, the number of connections that the broker closed, and the
bytes sent and received.
"""

import json
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from types import FrameType

CHUNK_BYTES = 1 << 20


def frames_in(data: bytes) -> list[bytes]:
    """The frames of a file, each with its size in front."""
    frames = []
    position = 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4])
        frames.append(data[position:end])
        position = end
    return frames


class Hostile:
    """One connection; all connections share ``counts``."""

    def __init__(
        self, address: tuple[str, int], frames: Iterator[bytes], counts: dict[str, int]
    ) -> None:
        self._frames = frames
        self._counts = counts
        self.socket = socket.create_connection(address)
        self.socket.setblocking(False)
        self._unsent = memoryview(b"")
        self._head = bytearray()
        self._left = 0
        self._begin()

    def _begin(self) -> None:
        self._unsent = memoryview(next(self._frames))
        self._head.clear()

    @property
    def events(self) -> int:
        """The selector events that the connection waits for."""
        return selectors.EVENT_WRITE if self._unsent else selectors.EVENT_READ

    def go_on(self) -> bool:
        """Send or receive; returns False if the connection is closed."""
        try:
            return self._send() if self._unsent else self._receive()
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _send(self) -> bool:
        sent = self.socket.send(self._unsent[:CHUNK_BYTES])
        self._counts["bytes_sent"] += sent
        self._unsent = self._unsent[sent:]
        return True

    def _receive(self) -> bool:
        data = self.socket.recv(CHUNK_BYTES)
        self._counts["bytes_received"] += len(data)
        if len(self._head) < 4:
            missing = 4 - len(self._head)
            self._head += data[:missing]
            if len(self._head) < 4:
                return bool(data)
            self._left = int.from_bytes(self._head) - len(data[missing:])
        else:
            self._left -= len(data)
        if self._left <= 0:
            self._counts["answers"] += 1
            self._begin()
        return bool(data)


def attack(bootstrap: str, connections: int, frames: list[bytes]) -> dict[str, int]:
    """Attack until SIGTERM."""
    host, _, port = bootstrap.rpartition(":")
    counts = {"answers": 0, "ended": 0, "bytes_sent": 0, "bytes_received": 0}
    ends: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        ends.append(number)

    signal.signal(signal.SIGTERM, end)
    selector = selectors.DefaultSelector()

    def connect() -> None:
        hostile = Hostile((host, int(port)), cycle(frames), counts)
        selector.register(hostile.socket, hostile.events, hostile)

    for _ in range(connections):
        connect()
    while not ends:
        for key, _ in selector.select(0.1):
            hostile: Hostile = key.data
            if hostile.go_on():
                if hostile.events != key.events:
                    selector.modify(hostile.socket, hostile.events, hostile)
                continue
            selector.unregister(hostile.socket)
            hostile.socket.close()
            counts["ended"] += 1
            connect()
    return counts


if __name__ == "__main__":
    file = Path(sys.argv[3]).read_bytes()
    print(json.dumps(attack(sys.argv[1], int(sys.argv[2]), frames_in(file))))
