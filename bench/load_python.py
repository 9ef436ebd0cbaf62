"""The load generator without a C compiler: the arguments, the work and the output of ``load.c``.

It is several times slower than the C program and often the limit itself; the table says so.
"""

import json
import selectors
import socket
import sys
import time
from collections import deque
from pathlib import Path

LONGEST_WAIT_S = 40


class Connection:
    """One connection: the send times of its requests in flight, and the state of its responses."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent: deque[float] = deque()
        self.unread = bytearray()
        self.left = 0

    def send(self, request: bytes) -> None:
        """Send one more request."""
        self.sent.append(time.perf_counter())
        self.socket.sendall(request)

    def receive(self) -> tuple[int, list[float]]:
        """Bytes received, and the latencies in seconds of the responses they complete."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise SystemExit("the broker closed the connection")
        now = time.perf_counter()
        taken = []
        self.unread += data
        while True:
            if self.left == 0:
                if len(self.unread) < 4:
                    return len(data), taken
                self.left = int.from_bytes(self.unread[:4])
                del self.unread[:4]
            used = min(self.left, len(self.unread))
            del self.unread[:used]
            self.left -= used
            if self.left:
                return len(data), taken
            taken.append(now - self.sent.popleft())


def run(host: str, port: int, count: int, in_flight: int, seconds: float, request: bytes) -> dict:
    """Load the broker for a while; returns the fields of ``bench.load.Load``."""
    selector = selectors.DefaultSelector()
    connections = [Connection(host, port) for _ in range(count)]
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    cpu_before = time.process_time()
    started = time.perf_counter()
    for connection in connections:
        for _ in range(in_flight):
            connection.send(request)
    latencies: list[float] = []
    response_bytes = 0
    while any(connection.sent for connection in connections):
        going = time.perf_counter() - started < seconds
        for key, _ in selector.select(LONGEST_WAIT_S):
            size_bytes, taken = key.data.receive()
            response_bytes += size_bytes
            latencies += taken
            for _ in taken if going else ():
                key.data.send(request)
    ended = time.perf_counter()
    for connection in connections:
        connection.socket.close()
    latencies.sort()

    def percentile_us(share: float) -> int:
        return round(latencies[int((len(latencies) - 1) * share)] * 1e6) if latencies else 0

    return {
        "requests": len(latencies),
        "seconds": ended - started,
        "response_bytes": response_bytes,
        "p50_us": percentile_us(0.5),
        "p99_us": percentile_us(0.99),
        "p999_us": percentile_us(0.999),
        "cpu_s": time.process_time() - cpu_before,
    }


if __name__ == "__main__":
    host, port, count, in_flight, seconds, file = sys.argv[1:]
    frame = Path(file).read_bytes()
    print(json.dumps(run(host, int(port), int(count), int(in_flight), float(seconds), frame)))
