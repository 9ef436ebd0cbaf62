"""P14: one broker's cable to the others is slow: 100 ms there and back, and 3 Mbit/s each way.

A process can be a cable: it takes the frames that the kernel gives to one end (a TAP device), and
hands each to the other end when it is due. It takes root on Linux, and no module of the kernel
that shapes traffic.

Rules:

- A frame leaves when the ones before it have, at the cable's rate, and arrives after its delay.
- Frames that would wait longer than ``QUEUE_S`` are dropped, as a router does.
- The frames of one end stay in order.
"""

import fcntl
import json
import os
import selectors
import struct
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from bench.cluster.kills import RECORD_BYTES, TOPIC
from bench.reliability.clusters import WAIT_S
from bench.reliability.network import CLUSTER, SIDES, Network
from bench.reliability.scenarios import Scenarios, Seen
from kwire.testing.waiting import wait_until

DELAY_S = 0.05
BITS_PER_S = 3_000_000
QUEUE_S = 0.5
IDLE_S = 0.1
"""So often a cable without frames looks whether it is to end."""
FRAME_BYTES = 1 << 16
SLOW_S = 20.0
"""So long it is measured what the others do, once the slow replica isn't in sync."""

LARGE_BYTES = 10_000
"""Records of this size are more than the cable can carry."""

LOOK_S = 0.2

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000


def tap(name: str) -> int:
    """Make a TAP device, which is there as long as its file descriptor is open."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH14x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return fd


class Way:
    """One direction of a cable."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._free_s = 0.0
        self._frames: deque[tuple[float, bytes]] = deque()

    def take(self, frame: bytes, now_s: float) -> None:
        """A frame comes in."""
        begins_s = max(self._free_s, now_s)
        if begins_s - now_s > QUEUE_S:
            return
        self._free_s = begins_s + len(frame) * 8 / BITS_PER_S
        self._frames.append((self._free_s + DELAY_S, frame))

    def give(self, now_s: float) -> float:
        """Hand over the frames that are due; the seconds until the next one is."""
        while self._frames and self._frames[0][0] <= now_s:
            try:
                os.write(self.target, self._frames.popleft()[1])
            except OSError:
                continue  # an end is down: the frame is lost
        return self._frames[0][0] - now_s if self._frames else IDLE_S


class SlowCable:
    """A slow cable between two TAP devices, in a thread, during the ``with`` block."""

    def __init__(self, one: str, other: str) -> None:
        first, second = tap(one), tap(other)
        self._ways = {first: Way(second), second: Way(first)}
        self._ends = Event()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for fd in self._ways:
                selector.register(fd, selectors.EVENT_READ)
            while not self._ends.is_set():
                now_s = time.monotonic()
                wait_s = min(way.give(now_s) for way in self._ways.values())
                for key, _ in selector.select(max(wait_s, 0.0)):
                    self._ways[key.fd].take(os.read(key.fd, FRAME_BYTES), time.monotonic())

    def __enter__(self) -> "SlowCable":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        for fd in self._ways:
            os.close(fd)


@contextmanager
def slow(network: Network, node_id: int) -> Iterator[None]:
    """Give a broker a slow cable to the other brokers; NotHere."""
    name, inside, outside = network.name(node_id), f"slow{node_id}", network.mark(f"s{node_id}")
    plugged = json.loads(network.ip("-n", name, "-j", "link", "show", "dev", CLUSTER))[0]
    address = f"{SIDES[CLUSTER]}.{node_id}/24"
    with SlowCable(inside, outside):
        network.ip("link", "set", outside, "master", network.bridge(CLUSTER), "up")
        network.ip("link", "set", inside, "address", plugged["address"], "netns", name)
        _move(network, name, address, CLUSTER, inside)
        try:
            yield
        finally:
            _move(network, name, address, inside, CLUSTER)


def _move(network: Network, name: str, address: str, before: str, after: str) -> None:
    """Move a broker's address from one cable to another; its connections stay."""
    network.ip("-n", name, "addr", "del", address, "dev", before)
    network.ip("-n", name, "link", "set", before, "down")
    network.ip("-n", name, "link", "set", after, "up")
    network.ip("-n", name, "addr", "add", address, "dev", after)


def slow_link(scenarios: Scenarios) -> Iterator[Seen]:
    """P14: more is written than the cable carries: its broker falls out of sync, once."""
    trial, load = scenarios.trial, scenarios.load
    network = trial.network
    assert isinstance(network, Network)
    victim = max(trial.nodes)
    asked = min(trial.nodes)
    others = [index for index, row in enumerate(trial.rows(TOPIC)) if row.leader != victim]

    def in_sync() -> list[int]:
        rows = trial.rows(TOPIC, asked)
        return [index for index in others if victim in rows[index].isr]

    began_s = time.monotonic()
    with slow(network, victim):
        load.record_bytes = LARGE_BYTES
        wait_until(
            lambda: not in_sync(), timeout_s=WAIT_S, what="the slow replica to be out of sync"
        )
        yield Seen("P14", "until the slow replica is out of sync", time.monotonic() - began_s)
        load.wait(others)
        out_s = time.monotonic()
        while time.monotonic() < out_s + SLOW_S:
            time.sleep(LOOK_S)
            assert not in_sync(), f"{in_sync()}: the slow replica is in sync again"
        yield scenarios.pause(
            "P14", "then the longest pause of other brokers' partitions", others, out_s
        )
        load.record_bytes = RECORD_BYTES
    yield Seen("P14", "from a good cable until it is in sync", scenarios.whole())
