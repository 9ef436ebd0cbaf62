"""Responses that wait to be sent on one connection: bytes, and slices of files between them.

Rules:

- ``send_nowait`` sends as much as the socket takes. The rest waits until the client reads.
- A response with slices goes out in the order of its parts. ``MSG_MORE`` keeps its head and the
  slice together, and ``sendfile`` takes the slice from the page cache.
- Small slices are read into the bytes around them, so that one ``send`` takes everything. Up to
  about 64 KB this costs less than ``sendfile``, and the client gets its response in one piece.
- A slice is sent in windows of WINDOW_BYTES. A thread first reads a window that isn't in the page
  cache, so that no other client waits for the disk, and memory holds no more than one window.
"""

import os
import socket
from collections import deque
from contextlib import suppress
from typing import Final, TypeAlias

import trio

from kwire.broker.cold_reads import ColdReads
from kwire.log.page_cache import ColdPages, is_cold, pread_nowait
from kwire.protocol.file_slice import EncodedResponse, FileSlice

FLUSH_BYTES = 256 * 1024
"""At this many bytes the responses are sent, even if more requests are at hand."""

LARGE_PART_BYTES = 64 * 1024
"""From this size on, a part that a thread has encoded is sent without being copied."""

SMALL_BYTES: Final = 32 * 1024
"""Slices up to this total size are read, and sent with the bytes around them."""

WINDOW_BYTES = 1024 * 1024
LONG_WAIT_S = 0.5
LAST_FLUSH_S = 1.0

_MSG_MORE = getattr(socket, "MSG_MORE", 0)

Part: TypeAlias = memoryview | FileSlice


class SliceEnded(Exception):
    """A segment ended before the promised end of a slice; the connection can't continue."""


class Outbox:
    """The bytes and slices that wait to be sent on one socket."""

    __slots__ = ("_cold", "_cold_reads", "_out", "_parts", "_slices", "_sock", "_warm_bytes")

    def __init__(self, sock: socket.socket, cold_reads: ColdReads) -> None:
        self._sock = sock
        self._cold_reads = cold_reads
        self._cold: FileSlice | None = None
        self._warm_bytes = 0  # this many bytes of the first part are in the page cache
        self._out = bytearray()
        self._slices: list[tuple[int, FileSlice]] = []
        self._parts: deque[Part] = deque()

    def __bool__(self) -> bool:
        return bool(self._out or self._parts)

    @property
    def is_large(self) -> bool:
        """Whether to send the responses now, even if more responses follow."""
        return bool(self._slices or self._parts) or len(self._out) > FLUSH_BYTES

    @property
    def held_bytes(self) -> int:
        """How many bytes wait in memory, slices of files not counted."""
        return len(self._out) + sum(
            len(part) for part in self._parts if isinstance(part, memoryview)
        )

    @property
    def waits_for_disk(self) -> bool:
        """Whether sending stopped at bytes that aren't in memory; only ``send`` continues then."""
        return self._cold is not None

    @property
    def buffers(self) -> tuple[bytearray, list[tuple[int, FileSlice]]]:
        """Where a response is encoded, behind those that wait: its bytes, and its slices."""
        return self._out, self._slices

    def append_plain(self, response: EncodedResponse) -> None:
        """Queue a whole response, which has its size in front."""
        if isinstance(response, bytes):
            self._out += response
            return
        for part in response:
            if isinstance(part, FileSlice):
                self._slices.append((len(self._out), part))
            elif len(part) < LARGE_PART_BYTES:
                self._out += part
            else:  # a copy of a response of 100 MB would take 20 ms
                self._to_parts()
                self._parts.append(memoryview(part))

    def clear(self) -> None:
        """Free the responses, because no client reads them any more."""
        self._out = bytearray()
        self._slices.clear()
        self._parts.clear()

    def send_nowait(self) -> bool:
        """Send what the socket takes; return whether that was all. OSError, SliceEnded."""
        if not self._parts and (not self._slices or self._join_small()):
            out = self._out
            if not out:
                return True
            try:  # nearly always the whole response fits into the socket's buffer at once
                sent = self._sock.send(out)
            except BlockingIOError:
                sent = 0
            self._out = bytearray()
            if sent == len(out):
                return True
            self._parts.append(memoryview(out)[sent:])
            return False
        self._to_parts()
        return self._send_parts()

    def send_on(self, waited_s: float) -> bool:
        """Like ``send_nowait``, after the client has left bytes unread for ``waited_s``."""
        self._has_waited(waited_s)
        return self.send_nowait()

    def _has_waited(self, waited_s: float) -> None:
        if waited_s > LONG_WAIT_S:
            self._warm_bytes = 0  # the kernel may have dropped these pages meanwhile

    async def send(self) -> None:
        """Send everything, and wait for the client and the disk. OSError, SliceEnded."""
        while not self.send_nowait():
            if self._cold is not None:
                await self._warm(self._cold)
            else:
                waiting_since = trio.current_time()
                await trio.lowlevel.wait_writable(self._sock)
                self._has_waited(trio.current_time() - waiting_since)

    async def send_the_rest(self) -> None:
        """Send as much as possible within ``LAST_FLUSH_S``, because the connection ends."""
        with trio.move_on_after(LAST_FLUSH_S), suppress(OSError, SliceEnded):
            await self.send()

    async def _warm(self, part: FileSlice) -> None:
        window_bytes = min(part.size_bytes, WINDOW_BYTES)
        try:
            await self._cold_reads.populate(part.fd, part.position, window_bytes)
        except OSError as error:
            raise SliceEnded(f"a segment can't be read: {error}") from error
        self._warm_bytes = window_bytes

    def _join_small(self) -> bool:
        """Read the slices into the bytes, if the slices are small and in memory. SliceEnded.

        This is the fast path of ``_to_parts`` and ``_send_parts``, its slow twin. The client gets
        the same bytes either way, as tests/connection/test_outbox.py shows.
        """
        size_bytes = 0
        for _, part in self._slices:
            size_bytes += part.size_bytes
            if size_bytes > SMALL_BYTES:
                return False
        joined = bytearray()
        position = 0
        try:
            for at, part in self._slices:
                joined += self._out[position:at]
                joined += pread_nowait(part.fd, part.size_bytes, part.position)
                position = at
        except (ColdPages, OSError):
            return False  # the slow twin meets the same error
        joined += self._out[position:]
        if len(joined) != len(self._out) + size_bytes:
            raise SliceEnded("a segment ended before the slice that was promised")
        self._out = joined
        self._slices.clear()
        return True

    def _to_parts(self) -> None:
        """Cut the bytes at the places of the slices."""
        out, self._out = memoryview(self._out), bytearray()
        slices, self._slices = self._slices, []
        position = 0
        for at, part in slices:
            self._parts.append(out[position:at])
            self._parts.append(part)
            position = at
        if position < len(out):
            self._parts.append(out[position:])

    def _send_parts(self) -> bool:
        self._cold = None  # pages that were missing the last time may be in memory by now
        parts = self._parts
        while parts:
            part = parts[0]
            try:
                rest: Part | None
                if isinstance(part, FileSlice):
                    rest = self._send_slice(part)
                else:
                    sent = self._sock.send(part, _MSG_MORE if len(parts) > 1 else 0)
                    rest = part[sent:] if sent < len(part) else None
            except BlockingIOError:
                return False
            except ColdPages:
                assert isinstance(part, FileSlice)
                self._cold = part
                return False
            if rest is None:
                parts.popleft()
            else:
                parts[0] = rest
        return True

    def _send_slice(self, part: FileSlice) -> FileSlice | None:
        """Send the part of a slice that the socket takes; return the rest, None if all is sent.

        Raises ColdPages if the slice has to be read from the disk first.
        """
        if not self._warm_bytes:
            window_bytes = min(part.size_bytes, WINDOW_BYTES)
            if is_cold(part.fd, part.position, window_bytes):
                raise ColdPages(part.fd, part.position, window_bytes)
            self._warm_bytes = window_bytes
        sent = os.sendfile(self._sock.fileno(), part.fd, part.position, self._warm_bytes)
        if sent == 0:
            raise SliceEnded("a segment ended before the slice that was promised")
        self._warm_bytes -= sent
        left = part.size_bytes - sent
        return FileSlice(part.fd, part.position + sent, left, part.owner) if left else None
