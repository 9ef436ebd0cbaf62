"""The bytes of a connection to a broker, sent and received at once where that is possible.

Rules:

- A plain socket is written and read directly. Only a call that has to wait for the socket uses
  trio's loop, because each turn of the loop costs more than a small request.
- Other streams, such as those of TLS and of tests, are used through trio.
- A task that has received ``BYTES_PER_TURN`` without waiting lets other tasks have a turn.
"""

import os

import trio

BYTES_PER_TURN = 1 << 20
"""How much a task receives without waiting before other tasks have their turn."""


class Transport:
    """A stream that is open; it raises what trio's streams raise."""

    __slots__ = ("_since_turn", "_socket", "_stream")

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self._since_turn = 0

    def fileno(self) -> int:
        """The descriptor of a plain socket; -1 for another stream, and when it is closed."""
        return -1 if self._socket is None else self._socket.fileno()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything; trio.BrokenResourceError, trio.ClosedResourceError."""
        rest = data
        if self._socket is not None and (fd := self._socket.fileno()) >= 0:
            try:
                sent = os.write(fd, data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error
            if sent == len(data):
                return
            rest = memoryview(data)[sent:]
        await self._stream.send_all(rest)

    async def receive_some(self, most_bytes: int) -> bytes | bytearray:
        """The bytes that have arrived, at least one; empty at the end of the stream."""
        if self._socket is None:
            return await self._stream.receive_some(most_bytes)
        buffer = bytearray(most_bytes)
        count = await self.receive_into(memoryview(buffer))
        del buffer[count:]
        return buffer

    async def receive_into(self, view: memoryview) -> int:
        """Fill the beginning of a buffer with arrived bytes; 0 at the end of the stream."""
        if self._socket is None:
            received = await self._stream.receive_some(len(view))
            view[: len(received)] = received
            return len(received)
        if self._since_turn >= BYTES_PER_TURN:
            self._since_turn = 0
            await trio.lowlevel.checkpoint()
        while True:
            fd = self._socket.fileno()
            if fd < 0:
                raise trio.ClosedResourceError("this connection is closed")
            try:
                count = os.readv(fd, [view])
            except BlockingIOError:
                self._since_turn = 0
                await trio.lowlevel.wait_readable(fd)
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error
            else:
                self._since_turn += count
                return count

    async def close(self) -> None:
        """Close the stream at once."""
        await trio.aclose_forcefully(self._stream)
