"""The bytes that a client has sent, until they are served: bytes in, frames out.

Rules:

- All connections read into one shared scratch buffer, and frames are served from there. So an idle
  connection holds no buffer. Only an incomplete frame is copied into a buffer of the connection.
- A connection's own buffer grows with the bytes that arrive, never with the size that a client
  announces. The connection keeps the buffer while large requests follow, and frees it when idle. A
  very large buffer isn't kept (``keep``), because many clients together could hold too much memory.
- Frames are views. A frame is valid until the connection reads again, which happens after all
  frames are answered. While a frame in the scratch buffer is still in use, that buffer stays with
  the frame, and the connections share a new scratch buffer.
"""

import socket
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.connection.mapped import Freeing, StartTask

INITIAL_BUFFER_BYTES = 4096
SCRATCH_BYTES = 64 * 1024

_SIZE = Struct(">i")
_SIZE_AND_KEY = Struct(">ih")
_KEY_END = _SIZE_AND_KEY.size
_NOTHING = memoryview(b"")


class Scratch:
    """The buffer into which a connection reads while it holds no bytes of its own.

    ``start_task`` starts a task that frees very large buffers of connections in steps. Without it,
    the buffers are freed at once.
    """

    __slots__ = ("_freeing", "_start_task", "view")

    def __init__(self, start_task: "StartTask | None" = None) -> None:
        self._start_task = start_task
        self._freeing: Freeing | None = None
        self.view = _NOTHING
        self.renew()

    def free(self, buffer: memoryview) -> None:
        """Free a very large buffer that its connection uses no more."""
        if self._start_task is None:
            return
        if self._freeing is None:
            from kwire.connection.mapped import Freeing

            self._freeing = Freeing(self._start_task)
        self._freeing.free(buffer)

    def renew(self) -> None:
        """Make another buffer, and leave the present one to its views."""
        self.view = memoryview(bytearray(SCRATCH_BYTES))


class BadFrameSize(Exception):
    """A frame that is too small or too large; ``size_bytes`` is what the client announced."""

    def __init__(self, size_bytes: int, start: bytes) -> None:
        super().__init__(size_bytes)
        self.size_bytes = size_bytes
        self.start = start


READ_BYTES = 1 << 20
"""The most bytes of one read, which then takes less than half a millisecond."""

COUNTED_BYTES = 16 << 10
"""A buffer of more bytes counts among those of all connections while it holds bytes that aren't
served. Smaller ones are about as large as the rest of what a connection takes."""

MAPPED_BYTES = 64 << 10
"""Larger buffers are maps (``kwire.connection.mapped``), which grow in place. Their memory goes
back to the system at once: the allocator would keep what doubling buffers leave behind, twice as
much as the buffers themselves."""

FREED_IN_STEPS_BYTES = 4 << 20
"""Larger buffers take so long to free that a task frees them in steps."""


class Inbox:
    """The bytes of one connection, between the smallest and largest size of a frame.

    ``is_counted`` says that the connection's buffer has more than ``COUNTED_BYTES``.
    """

    __slots__ = (
        *("_end", "_min_bytes", "_own", "_scratch", "_start", "_view"),
        *("is_counted", "max_bytes"),
    )

    def __init__(self, scratch: Scratch, min_bytes: int, max_bytes: int) -> None:
        self._scratch = scratch
        self._min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.is_counted = False
        self._own = _NOTHING
        self._view = _NOTHING
        self._start = 0
        self._end = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that this connection holds."""
        return len(self._own)

    def receive(self, sock: socket.socket) -> int:
        """Read once; return the number of bytes, 0 at the end. BlockingIOError, OSError."""
        if self._start == self._end:
            self._start = self._end = 0
            self._view = self._own or self._scratch.view
            count = sock.recv_into(self._view)
        else:
            self._make_room()
            count = sock.recv_into(self._view[self._end : self._end + READ_BYTES])
        self._end += count
        return count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, None if it is incomplete; BadFrameSize."""
        start = self._start
        if self._end - start < 4:
            return None
        (size,) = _SIZE.unpack_from(self._view, start)
        if not self._min_bytes <= size <= self.max_bytes:
            raise BadFrameSize(size, bytes(self._view[start : start + 4]))
        stop = start + 4 + size
        if stop > self._end:
            return None
        self._start = stop
        return self._view[start + 4 : stop]

    def next_frame_if(self, api_key: int) -> memoryview | None:
        """Like ``next_frame``, but None as well for a request to another API, or a bad size."""
        start = self._start
        if not self.has_frame or self._end - start < _KEY_END:
            return None
        (size, key) = _SIZE_AND_KEY.unpack_from(self._view, start)
        if key != api_key or not self._min_bytes <= size <= self.max_bytes:
            return None
        return self.next_frame()

    def put_back(self, frame: memoryview) -> None:
        """Let ``next_frame`` return the last frame again."""
        self._start -= 4 + len(frame)

    @property
    def is_empty(self) -> bool:
        """Whether all bytes that were read have been served."""
        return self._start == self._end

    @property
    def has_frame(self) -> bool:
        """Whether ``next_frame`` would return a frame or raise BadFrameSize."""
        held = self._end - self._start
        if held < 4:
            return False
        (size,) = _SIZE.unpack_from(self._view, self._start)
        return not self._min_bytes <= size <= self.max_bytes or held >= 4 + size

    def leave_scratch(self, *, views_stay: bool = False) -> bool:
        """Copy the remaining bytes out of the scratch buffer, before another connection reads.

        With ``views_stay``, frames are still in use: then the connections get a new scratch buffer.
        Returns ``is_counted``: whether the caller has to count the bytes that are left.
        """
        if self._view is not self._scratch.view:
            return self.is_counted
        if self._start != self._end:
            self._move_bytes(max(2 * (self._end - self._start), INITIAL_BUFFER_BYTES))
        else:
            self._view = self._own
            self._start = self._end = 0
        if views_stay:
            self._scratch.renew()
        return self.is_counted

    def release(self) -> None:
        """Free the buffer if it is empty; views of it stay valid."""
        if self._start == self._end:
            self.close()

    def close(self) -> None:
        """Free the buffer and its content; views of it stay valid."""
        own = self._own
        self._own = self._view = _NOTHING
        self._start = self._end = 0
        self.is_counted = False
        if len(own) > FREED_IN_STEPS_BYTES:
            self._scratch.free(own)

    def keep(self, most_bytes: int) -> None:
        """Free the buffer if it is empty and larger than ``most_bytes``; views of it stay valid."""
        if len(self._own) > most_bytes:
            self.release()

    def _make_room(self) -> None:
        """Make room for the next read: move the bytes, or take a larger buffer."""
        capacity = len(self._view)
        if self._end < capacity and self._start == 0:
            return
        held = self._end - self._start
        if held * 2 > capacity:
            self._move_bytes(2 * capacity)
        elif self._view is self._own:  # a fresh buffer of a megabyte would first be zeroed
            self._own[:held] = self._own[self._start : self._end]
            self._start, self._end = 0, held
        else:
            self._move_bytes(capacity)

    def _move_bytes(self, capacity: int) -> None:
        """Move the remaining bytes to a new buffer of this size."""
        held = self._end - self._start
        size_bytes = min(capacity, self.max_bytes + 4)
        old = self._view
        if size_bytes <= MAPPED_BYTES:
            view = memoryview(bytearray(size_bytes))
        elif self._start == 0 and old.nbytes > MAPPED_BYTES and old is self._own:
            from kwire.connection.mapped import grown

            self._own = self._view = _NOTHING  # a view would keep the memory from growing
            view, old = grown(old, size_bytes)
        else:
            from kwire.connection.mapped import new_mapped

            view = new_mapped(size_bytes)
        if view is not old:
            view[:held] = old[self._start : self._end]
        self._own = self._view = view
        self._start, self._end = 0, held
        self.is_counted = len(view) > COUNTED_BYTES
