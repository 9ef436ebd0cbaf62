"""Inbox and outbox of a connection with TLS, which also count the bytes that wait inside TLS.

Slices of files are read in pieces, because they have to be encrypted.
"""

import os
import socket
from typing import cast

from kwire.broker.cold_reads import ColdReads
from kwire.connection.inbox import Inbox, Scratch
from kwire.connection.outbox import WINDOW_BYTES, Outbox, SliceEnded
from kwire.connection.tls_socket import ENCRYPT_BYTES, TlsSocket
from kwire.log.page_cache import ColdPages, is_cold
from kwire.protocol.file_slice import FileSlice


class TlsInbox(Inbox):
    """An inbox whose socket may hold decrypted bytes that the inbox hasn't read yet."""

    __slots__ = ("_tls",)

    def __init__(self, scratch: Scratch, min_bytes: int, max_bytes: int, tls: TlsSocket) -> None:
        super().__init__(scratch, min_bytes, max_bytes)
        self._tls = tls

    def receive_all(self) -> int:
        """Read once, and go on until there is a whole frame or nothing is left."""
        sock = cast(socket.socket, self._tls)
        count = total = self.receive(sock)
        while count and self._tls.has_pending and not self.has_frame:
            try:
                count = self.receive(sock)
            except BlockingIOError:
                break
            total += count
        return total if count else 0


class TlsOutbox(Outbox):
    """An outbox whose bytes are encrypted."""

    __slots__ = ("_tls",)

    def __init__(self, tls: TlsSocket, cold_reads: ColdReads) -> None:
        super().__init__(cast(socket.socket, tls), cold_reads)
        self._tls = tls

    def __bool__(self) -> bool:
        return super().__bool__() or self._tls.has_unsent

    @property
    def held_bytes(self) -> int:
        """How many bytes wait in memory, slices of files not counted."""
        return super().held_bytes + self._tls.unsent_bytes

    def send_nowait(self) -> bool:
        """Send what the socket takes; return whether that was all. OSError, SliceEnded."""
        is_done = super().send_nowait()
        if not is_done and not self._tls.has_unsent and not self.waits_for_disk:
            is_done = super().send_nowait()  # one send takes at most ``ENCRYPT_BYTES``
        return self._tls.flush() and is_done

    def _send_slice(self, part: FileSlice) -> FileSlice | None:
        if not self._tls.flush():
            raise BlockingIOError
        if not self._warm_bytes:
            window_bytes = min(part.size_bytes, WINDOW_BYTES)
            if is_cold(part.fd, part.position, window_bytes):
                raise ColdPages(part.fd, part.position, window_bytes)
            self._warm_bytes = window_bytes
        data = os.pread(part.fd, min(self._warm_bytes, ENCRYPT_BYTES), part.position)
        if not data:
            raise SliceEnded("a segment ended before the slice that was promised")
        sent = self._tls.send(data)
        self._warm_bytes -= sent
        left = part.size_bytes - sent
        return FileSlice(part.fd, part.position + sent, left, part.owner) if left else None
