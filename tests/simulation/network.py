"""The network of a simulated cluster: streams in memory, with latency, cuts, and dead processes.

Rules:

- The bytes of a stream arrive in their order, large messages in pieces. Latency and chance come
  from the world's ``random``.
- A cut between two places stops what is on its way until the cut is healed, in one direction or in
  both. A new connection waits, as it needs both.
- A connection that is reset loses what is on its way, and both ends learn of it.
- A process that dies closes its streams, as a kernel does, and its address refuses connections. A
  machine that dies says nothing, and its address doesn't answer.
"""

import math
from collections import deque
from collections.abc import Callable
from random import Random

import trio

from kwire.client.peer import OpenStream
from tests.simulation.virtual_time import Timer, Waiter, pass_s, virtual_clock

USUAL_DELAY_S = 0.001
PIECE_BYTES = 64 * 1024

Accept = Callable[["SimulatedStream"], None]

MakeStream = Callable[["Network", object, object], "SimulatedStream"]
"""Makes one end of a connection, from its place to another."""


class Network:
    """All streams; ``places`` are node ids, or names of clients."""

    def __init__(self, random: Random, happens: Callable[[str], bool]) -> None:
        self.delay_s = USUAL_DELAY_S
        self._happens = happens
        self.changed = trio.Event()
        self._random = random
        self._cuts: set[frozenset[object]] = set()
        self._one_way: set[tuple[object, object]] = set()
        self._silent: set[object] = set()
        self._listening: dict[tuple[str, int], tuple[object, object, Accept, MakeStream]] = {}
        self._streams: dict[object, list[SimulatedStream]] = {}
        self._held: dict[SimulatedStream, None] = {}

    def listen(
        self,
        place: object,
        process: object,
        host: str,
        port: int,
        accept: Accept,
        make: "MakeStream | None" = None,
    ) -> None:
        """Give the streams that are opened to an address to ``accept``."""
        self._listening[host, port] = place, process, accept, make or SimulatedStream

    def close_listeners(self, whose: object) -> None:
        """Refuse connections to a place, or to one process.

        What is left of a process that was killed may end after the next one listens.
        """
        kept = {at: who for at, who in self._listening.items() if whose not in who[:2]}
        self._listening = kept

    def opener(self, place: object) -> OpenStream:
        """What opens streams from a place."""

        async def open_stream(host: str, port: int) -> trio.abc.Stream:
            return await self.open(place, host, port, SimulatedStream)

        return open_stream

    async def open(
        self, place: object, host: str, port: int, make: MakeStream
    ) -> "SimulatedStream":
        """A stream from a place to an address, whose end at the place is made by ``make``."""
        await pass_s(self.latency_s())
        target = int(host.removeprefix("broker-"))
        while self.is_cut(place, target) or self.is_cut(target, place):
            await self.changed.wait()
        if (host, port) not in self._listening:
            raise ConnectionRefusedError(111, "connection refused")
        _, _, accept, make_theirs = self._listening[host, port]
        ours, theirs = make(self, place, target), make_theirs(self, target, place)
        ours.peer, theirs.peer = theirs, ours
        for stream in (ours, theirs):
            self._streams.setdefault(stream.place, []).append(stream)
        accept(theirs)
        return ours

    def latency_s(self) -> float:
        """How long the next message takes."""
        return self._random.random() * self.delay_s

    def is_cut(self, sender: object, receiver: object) -> bool:
        """Whether nothing passes from one place to another."""
        return bool(
            frozenset((sender, receiver)) in self._cuts
            or (sender, receiver) in self._one_way
            or sender in self._silent
            or receiver in self._silent
        )

    def cut(self, one: object, other: object) -> None:
        """Let nothing pass between two places."""
        if self._happens(f"cut {one} and {other}"):
            self._cuts.add(frozenset((one, other)))

    def cut_one_way(self, sender: object, receiver: object) -> None:
        """Let nothing pass from one place to another; the other direction works."""
        if self._happens(f"nothing passes from {sender} to {receiver}"):
            self._one_way.add((sender, receiver))

    def slow_down(self, delay_s: float) -> None:
        """Let each message take up to this time."""
        if self._happens(f"messages take up to {delay_s:g} s"):
            self.delay_s = delay_s

    def reset(self, one: object, *others: object) -> None:
        """Break all connections of a place with others; new ones can be opened at once."""
        if not self._happens(f"connections of {one} with {', '.join(map(str, others))} break"):
            return
        for other in others:
            for stream in [*self._streams.get(one, []), *self._streams.get(other, [])]:
                if {stream.place, stream.other} == {one, other}:
                    stream.reset()

    def pause(self, place: object) -> None:
        """Let nothing pass to and from a place: its process is frozen, or its machine is away."""
        self._silent.add(place)

    def heal(self) -> None:
        """Let everything pass."""
        self._cuts.clear()
        self._one_way.clear()
        self._silent.clear()
        self._tell()

    def end_process(self, place: object) -> None:
        """Close the streams of a process that has died, and refuse new ones."""
        self.close_listeners(place)
        for stream in self._streams.pop(place, []):
            stream.close()
        self._silent.discard(place)
        self._tell()

    def forget(self, stream: "SimulatedStream") -> None:
        """A stream is closed."""
        streams = self._streams.get(stream.place, [])
        if stream in streams:
            streams.remove(stream)

    def hold(self, stream: "SimulatedStream") -> None:
        """Wake a stream when something passes again that was cut."""
        self._held[stream] = None

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()
        held, self._held = self._held, {}
        for stream in held:
            virtual_clock().wake_at(trio.current_time(), stream.receiver)


class SimulatedStream(trio.abc.Stream):
    """One end of a connection from ``place`` to ``other``."""

    peer: "SimulatedStream"

    def __init__(self, network: Network, place: object, other: object) -> None:
        self.place = place
        self.other = other
        self._network = network
        self._arriving: deque[tuple[float, bytes]] = deque()
        self._last_s = -math.inf
        self.receiver: Timer = Waiter()
        self._is_closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; they are on their way when this returns."""
        await trio.lowlevel.checkpoint()
        if self._is_closed:
            raise trio.ClosedResourceError
        self.send_now(bytes(data))

    def send_now(self, data: bytes) -> None:
        now_s = trio.current_time()
        self.peer.arrive(now_s + self._network.latency_s(), data[:PIECE_BYTES])
        for begin in range(PIECE_BYTES, len(data), PIECE_BYTES):
            arrives_s = now_s + self._network.latency_s()
            self.peer.arrive(arrives_s, data[begin : begin + PIECE_BYTES])

    def arrive(self, at_s: float, data: bytes) -> None:
        """Bytes are on their way to this end; no bytes are the end of the stream."""
        self._last_s = max(self._last_s, at_s)
        self._arriving.append((self._last_s, data))
        if len(self._arriving) == 1:
            virtual_clock().wake_at(self._last_s, self.receiver)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The next bytes; none at the end of the stream."""
        if self._has_arrived():
            await trio.lowlevel.checkpoint()
        while not self._is_closed:
            if not self._has_arrived():
                await self._wait()
            elif self._network.is_cut(self.other, self.place):
                await self._network.changed.wait()
            else:
                at_s, data = self._arriving[0]
                if data:
                    self._arriving.popleft()
                if max_bytes is not None and len(data) > max_bytes:
                    self._arriving.appendleft((at_s, data[max_bytes:]))
                return data[:max_bytes]
        raise trio.ClosedResourceError

    def _has_arrived(self) -> bool:
        return bool(self._arriving) and self._arriving[0][0] <= trio.current_time()

    async def _wait(self) -> None:
        """Wait until the next bytes are there, or this end is closed."""
        self.receiver = waiter = Waiter()
        if self._arriving:
            virtual_clock().wake_at(self._arriving[0][0], waiter)
        await waiter.wait()

    async def wait_send_all_might_not_block(self) -> None:
        """It never blocks."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close this end."""
        self.close()
        await trio.lowlevel.checkpoint()

    def reset(self) -> None:
        """Lose what is on its way to this end, and say that nothing more comes."""
        self._arriving.clear()
        self.arrive(trio.current_time(), b"")

    def close(self) -> None:
        """Close this end; the other one learns of it."""
        if not self._is_closed:
            self._is_closed = True
            self.send_now(b"")
            self._network.forget(self)
            self.receiver.wake()
