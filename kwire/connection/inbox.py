"""What a client sent and nobody has served yet: bytes in, frames out.

Rules:

- Bytes are read into one scratch buffer that all connections share, and served from there: an idle
  connection holds no buffer. Only the rest of a frame that hasn't come whole is copied into a
  buffer of the connection's own.
- A connection's own buffer grows with the bytes that came, never with the size a client announces.
  It is kept while the client goes on with large requests, and given back when it is idle.
- Frames are views, good until the connection reads on, which it does when it has answered them.
  While one in the scratch buffer is in use, that buffer is left to it, and the connections get
  another.
"""

import socket
from struct import Struct

INITIAL_BUFFER_BYTES = 4096
SCRATCH_BYTES = 64 * 1024

_SIZE = Struct(">i")
_NOTHING = memoryview(b"")


class Scratch:
    """The buffer into which every connection reads when it holds nothing itself."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = _NOTHING
        self.renew()

    def renew(self) -> None:
        """Leave the buffer to those who have views of it, and make another."""
        self.view = memoryview(bytearray(SCRATCH_BYTES))


class BadFrameSize(Exception):
    """A frame that is too small or too large; ``size_bytes`` is what the client announced."""

    def __init__(self, size_bytes: int, start: bytes) -> None:
        super().__init__(size_bytes)
        self.size_bytes = size_bytes
        self.start = start


class Inbox:
    """The bytes of one connection, between the smallest and largest size of a frame."""

    __slots__ = ("_end", "_max_bytes", "_min_bytes", "_own", "_scratch", "_start", "_view")

    def __init__(self, scratch: Scratch, min_bytes: int, max_bytes: int) -> None:
        self._scratch = scratch
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._own = _NOTHING
        self._view = _NOTHING
        self._start = 0
        self._end = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that this connection holds."""
        return len(self._own)

    def receive(self, sock: socket.socket) -> int:
        """Read once; how many bytes came, 0 at the end. BlockingIOError, OSError."""
        if self._start == self._end:
            self._start = self._end = 0
            self._view = self._own or self._scratch.view
            count = sock.recv_into(self._view)
        else:
            self._make_room()
            count = sock.recv_into(self._view[self._end :])
        self._end += count
        return count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, None until more has come; BadFrameSize."""
        start = self._start
        if self._end - start < 4:
            return None
        (size,) = _SIZE.unpack_from(self._view, start)
        if not self._min_bytes <= size <= self._max_bytes:
            raise BadFrameSize(size, bytes(self._view[start : start + 4]))
        stop = start + 4 + size
        if stop > self._end:
            return None
        self._start = stop
        return self._view[start + 4 : stop]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of what was read."""
        return self._start == self._end

    @property
    def has_frame(self) -> bool:
        """Whether ``next_frame`` has something to give or to say."""
        held = self._end - self._start
        if held < 4:
            return False
        (size,) = _SIZE.unpack_from(self._view, self._start)
        return not self._min_bytes <= size <= self._max_bytes or held >= 4 + size

    def leave_scratch(self, *, views_stay: bool = False) -> None:
        """Take the rest out of the scratch buffer, for the next connection reads into it.

        ``views_stay`` says that frames are still in use: then the next one reads into another.
        """
        if self._view is not self._scratch.view:
            return
        if self._start != self._end:
            self._move(max(2 * (self._end - self._start), INITIAL_BUFFER_BYTES))
        else:
            self._view = self._own
            self._start = self._end = 0
        if views_stay:
            self._scratch.renew()

    def release(self) -> None:
        """Give back the memory, if nothing is in it; views of it stay good."""
        if self._start == self._end:
            self._own = self._view = _NOTHING
            self._start = self._end = 0

    def _make_room(self) -> None:
        """Move or grow so that there is room to read into."""
        capacity = len(self._view)
        if self._end < capacity and self._start == 0:
            return
        held = self._end - self._start
        if held * 2 > capacity:
            self._move(2 * capacity)
        elif self._view is self._own:  # a new one of a megabyte would be filled with zeros first
            self._own[:held] = self._own[self._start : self._end]
            self._start, self._end = 0, held
        else:
            self._move(capacity)

    def _move(self, capacity: int) -> None:
        """Move what there is to a new buffer of this size."""
        held = self._end - self._start
        view = memoryview(bytearray(min(capacity, self._max_bytes + 4)))
        view[:held] = self._view[self._start : self._end]
        self._own = self._view = view
        self._start, self._end = 0, held
