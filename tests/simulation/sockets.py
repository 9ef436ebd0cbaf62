"""The sockets of simulated brokers that have a poller: real ones, whose other ends are the network.

Rules:

- A connection of such a broker is one end of a pair of sockets. The other end belongs to a
  ``WiredStream``, which passes bytes on between the socket and the simulated network, with latency,
  cuts and faults as for all others. So the broker runs its own code down to the system calls.
- No task waits at the network's ends. The virtual clock looks at them before time passes, and hands
  over what arrives at that moment. While trio or a poller has a socket to serve, no time passes.
- The kernel names sockets in the order in which they became ready, and a seed decides that order.
- Pollers measure their turns, and work its slices, by clocks that count calls
  (``make_pollers_steady``).
"""

import os
import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from kwire.client.peer import OpenStream
from kwire.connection.poller import Poller
from tests.simulation.network import Network, SimulatedStream
from tests.simulation.trio_insides import poller_of_this_run
from tests.simulation.virtual_time import virtual_clock
from tests.support.clock import step_clock

READ_BYTES = 1 << 20
TICK_S = 30e-6
"""So long each look at the time seems to take."""

_ESTABLISHED, _CLOSE_WAIT = b"\1", b"\10"


class Accepted(socket.socket):
    """The end of a pair that a broker has accepted; it seems to be of TCP."""

    def __init__(self, stream: "WiredStream") -> None:
        super().__init__(fileno=stream.brokers_end.detach())
        stream.brokers_end = self
        self.stream = stream

    def setsockopt(self, level: int, *option: Any) -> None:
        """As for a socket; there are no options of TCP."""
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *option)

    def getsockopt(self, level: int, *option: Any) -> Any:
        """As for a socket; of TCP there is the state of the connection."""
        if level != socket.IPPROTO_TCP:
            return super().getsockopt(level, *option)
        return _CLOSE_WAIT if self.stream.has_ended else _ESTABLISHED

    def getsockname(self) -> tuple[str, int]:
        """An address of the broker."""
        return f"broker-{self.stream.place}", 9092


class Sockets:
    """The network's ends of all sockets of a run."""

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._trio_fd = -1
        self._streams: dict[int, WiredStream] = {}

    def make_stream(self, network: Network, place: object, other: object) -> "WiredStream":
        """One end of a connection, whose process has a socket."""
        return WiredStream(self, network, place, other)

    def opener(self, network: Network, place: object) -> OpenStream:
        """What opens sockets from a place."""

        async def open_stream(host: str, port: int) -> trio.abc.Stream:
            stream = await network.open(place, host, port, self.make_stream)
            assert isinstance(stream, WiredStream)
            return trio.SocketStream(trio.socket.from_stdlib_socket(stream.brokers_end))

        return open_stream

    def watch(self, fd: int, stream: "WiredStream", events: int) -> None:
        """Call ``on_events`` of a stream."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._trio_fd = poller_of_this_run()
            self._epoll.register(self._trio_fd, select.EPOLLIN)
            virtual_clock().look = self._look
        if fd in self._streams:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
            self._streams[fd] = stream

    def unwatch(self, fd: int) -> None:
        """Forget a stream."""
        if self._streams.pop(fd, None) is not None and self._epoll is not None:
            self._epoll.unregister(fd)

    def _look(self) -> bool:
        """Take what brokers have written; whether trio has a socket that a task waits for."""
        assert self._epoll is not None
        while events := self._epoll.poll(0):
            for fd, flags in events:
                if fd in self._streams:
                    self._streams[fd].on_events(flags)
            if len(events) == 1 and events[0][0] == self._trio_fd:
                return True
        return False

    def close(self) -> None:
        """Close everything that is left at the end of a run."""
        for stream in self._streams.values():
            stream.abandon()
        if self._epoll is not None:
            self._epoll.close()


class WiredStream(SimulatedStream):
    """One end of a connection, whose process reads and writes ``brokers_end``."""

    def __init__(self, sockets: Sockets, network: Network, place: object, other: object) -> None:
        super().__init__(network, place, other)
        self.receiver = self
        self.has_ended = False
        self._sockets = sockets
        self._sock, self.brokers_end = socket.socketpair()
        self._sock.setblocking(False)
        self._rest = b""
        sockets.watch(self._sock.fileno(), self, select.EPOLLIN)

    def wake(self) -> bool:
        """Hand over what has arrived; whether there was anything."""
        is_something = False
        while not self._is_closed and not self._rest and self._has_arrived():
            if self._network.is_cut(self.other, self.place):
                self._network.hold(self)
                return is_something
            if self.has_ended:
                return is_something
            _, self._rest = self._arriving.popleft()
            is_something = True
            self._hand_over()
        if self._arriving and not self._rest and not self._is_closed:
            virtual_clock().wake_at(self._arriving[0][0], self)
        return is_something

    def _hand_over(self) -> None:
        """Write the next bytes to the broker; no bytes are the end."""
        try:
            if self._rest:
                self._rest = self._rest[self._sock.send(self._rest) :]
            else:
                self.has_ended = True
                self._sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass  # the broker has to read first
        except OSError:
            self._rest = b""  # the broker has closed its end
        if self._rest:
            self._watch(select.EPOLLIN | select.EPOLLOUT)

    def _watch(self, events: int) -> None:
        self._sockets.watch(self._sock.fileno(), self, events)

    def on_events(self, flags: int) -> None:
        """The broker has written, has read what it lacked room for, or has closed its end."""
        if flags & select.EPOLLOUT:
            self._watch(select.EPOLLIN)
            self._hand_over()
            self.wake()
        if flags & ~select.EPOLLOUT and not self._is_closed and not self._take():
            self.close()

    def _take(self) -> bool:
        """Send what the broker has written; False at the end."""
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if data:
            self.send_now(data)
        return bool(data)

    def close(self) -> None:
        """Close the network's end, after the last bytes; the broker's is its own."""
        if not self._is_closed:
            with suppress(OSError):
                while data := self._sock.recv(READ_BYTES):
                    self.send_now(data)
            super().close()
            self._sockets.unwatch(self._sock.fileno())
            self._sock.close()

    def abandon(self) -> None:
        """Close both ends when the run is over."""
        self._sock.close()
        self.brokers_end.close()


class Door:
    """What a broker listens at; ``closed`` is called when it is closed."""

    def __init__(self, closed: Callable[[], None]) -> None:
        self._closed = closed
        self._fd = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._waiting: deque[WiredStream] = deque()

    def ring(self, stream: SimulatedStream) -> None:
        """Somebody connects."""
        assert isinstance(stream, WiredStream)
        self._waiting.append(stream)
        os.eventfd_write(self._fd, 1)

    def fileno(self) -> int:
        """What is readable while somebody waits."""
        return self._fd

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        """The socket and the address of who has waited longest; BlockingIOError."""
        os.eventfd_read(self._fd)
        stream = self._waiting.popleft()
        return Accepted(stream), (str(stream.other), 1)

    def close(self) -> None:
        """Let nobody in."""
        self._closed()
        for stream in self._waiting:
            stream.close()
            stream.brokers_end.close()
        self._waiting.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _InOrder(dict[Any, None]):
    """A set in the order of its members' arrival: that of a set depends on their addresses."""

    def add(self, one: Any) -> None:
        """As a set."""
        self[one] = None

    def discard(self, one: Any) -> None:
        """As a set."""
        self.pop(one, None)


class SteadyPoller(Poller):
    """A poller that never looks for a next event, as on a machine with one processor."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.connections = _InOrder()  # type: ignore[assignment]
        self._looks = False


def make_pollers_steady(patch: pytest.MonkeyPatch) -> None:
    """Let nothing that a poller does, and no slice, depend on real time."""
    for module in ("kwire.connection.poller", "kwire.budget.work", "kwire.budget.slices"):
        step_clock(patch, module, TICK_S)
    step_clock(patch, "kwire.budget.validation_pool", TICK_S, "thread_time")
    patch.setattr("kwire.server.Poller", SteadyPoller)
