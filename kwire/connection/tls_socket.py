"""A socket that speaks TLS, for code that uses a non-blocking socket: bytes in, bytes out.

Rules:

- TLS works on two buffers in memory (``ssl.MemoryBIO``), and this class moves bytes between them
  and the socket. So many TLS records take one system call.
- ``has_pending`` says that this class may hold bytes that the connection hasn't read yet. The
  kernel doesn't know of them, so the connection has to read again without waiting for the kernel.
- ``send`` takes at most ``ENCRYPT_BYTES``. Bytes that the socket doesn't take stay here until
  ``flush``. Until then, ``send`` takes nothing more. So little memory is held for a slow client.
- A client may send TLS messages without data (new keys, attempts to renegotiate). They cost time,
  and the answers to them take memory. A client that sends more than ``MOST_SILENT_BYTES`` of them,
  or that doesn't stop asking for answers, is disconnected.
- The steps of a handshake are slow, and belong in a thread. Nothing else is called meanwhile. Only
  the client's last message of TLS 1.3 is quick (``is_last``), if it has no certificate. An
  incomplete record causes no step (``has_record``), so a client that sends single bytes makes
  little work. A client that sends records of single bytes is disconnected after ``MOST_STEPS``.
"""

import socket
import ssl
from contextlib import suppress

RECEIVE_BYTES = 64 * 1024
ENCRYPT_BYTES = 256 * 1024
MOST_HANDSHAKE_BYTES = 256 * 1024
"""The most bytes of a handshake: OpenSSL takes certificate chains of 100 KB, and reads ahead."""
MOST_STEPS = 64
"""How often records of a handshake may arrive; an honest client needs fewer than ten flights."""
MOST_SILENT_BYTES = 32 * 1024
"""A TLS record has 18 KB at most, so an honest client sends no more without a byte of data."""

_NOTHING = memoryview(b"")
_FOR_OLD_MACHINES = b"\x14\x03\x03\x00\x01\x01"
_ENCRYPTED = b"\x17"
"""The type of a TLS record with encrypted content (RFC 8446, 5.1 and D.4)."""
_HEAD_BYTES = 5
"""Type, version, and the number of bytes that follow."""
_TYPES = range(0x14, 0x18)
_MOST_RECORD_BYTES = 16 * 1024 + 2048
"""The limit of TLS 1.2, with what a cipher suite may add (RFC 5246, 6.2.3)."""


class TlsSocket:
    """The server's side of TLS on an accepted socket."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock = sock
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._unsent = _NOTHING
        self._has_ended = False
        self.has_pending = False
        self._silent_bytes = 0
        self._record = b""
        """The incomplete last record of a handshake."""
        self.handshake_bytes = 0
        """How many bytes of its handshake the client has sent; memory holds no more of it than
        that."""
        self._steps_left = MOST_STEPS
        self.is_last = False
        """Whether the bytes of ``receive_handshake`` are the client's last ones, and quick to
        process."""
        self.has_record = False
        """Whether these bytes complete a record, or are no TLS: then a step of the handshake can
        run."""

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._sock.fileno()

    def receive_handshake(self) -> bytes:
        """Read the client's next bytes of a handshake; empty at the end. BlockingIOError, OSError.

        ConnectionAbortedError after ``MOST_HANDSHAKE_BYTES`` or ``MOST_STEPS``.
        """
        data = self._sock.recv(RECEIVE_BYTES)
        self.handshake_bytes += len(data)
        if self.handshake_bytes > MOST_HANDSHAKE_BYTES:
            raise ConnectionAbortedError("the client's handshake is too long")
        self._in.write(data)
        if not data:
            return data
        self.is_last = not self._record and self._is_quick(data)
        self._record += data
        self.has_record = self._take_records()
        if self.has_record:
            self._steps_left -= 1
            if self._steps_left < 0:
                raise ConnectionAbortedError("the client's handshake has too many records")
        return data

    def _take_records(self) -> bool:
        """Drop whole records; returns whether there were any, or bytes that aren't TLS."""
        whole = 0
        record = self._record
        while len(record) - whole >= _HEAD_BYTES:
            size = int.from_bytes(record[whole + 3 : whole + _HEAD_BYTES])
            if size > _MOST_RECORD_BYTES:
                return True
            if len(record) < whole + _HEAD_BYTES + size:
                break
            whole += _HEAD_BYTES + size
        self._record = record[whole:]
        return whole > 0 or self._record[0] not in _TYPES

    def _is_quick(self, data: bytes) -> bool:
        """Whether these records end a handshake, and no private key is used for them.

        In TLS 1.3 only a client's last message is encrypted. A short record for old machines in
        between may be in front of it. All records are looked at: TLS skips encrypted ones that come
        too early (RFC 8446, 4.2.10), and a client could put its first message behind one.
        """
        if self.tls.context.verify_mode is not ssl.CERT_NONE:
            return False  # it has a certificate, which takes long to check
        at = len(data) - len(data.removeprefix(_FOR_OLD_MACHINES))
        if at == len(data):
            return False
        while at < len(data):
            if data[at : at + 1] != _ENCRYPTED:
                return False
            at += _HEAD_BYTES + int.from_bytes(data[at + 3 : at + _HEAD_BYTES])
        return True

    def shake_hands(self) -> bool:
        """Continue the handshake; returns whether it is complete. ssl.SSLError; slow."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self._record = b""
        self.has_pending = True
        return True

    def send_handshake(self) -> None:
        """Send the handshake's messages for the client, including an alert; OSError."""
        self._take_output()
        self.flush()

    @property
    def has_unsent(self) -> bool:
        """Whether bytes that were given to ``send`` wait here."""
        return bool(self._unsent)

    @property
    def unsent_bytes(self) -> int:
        """How many bytes that were given to ``send`` wait here."""
        return len(self._unsent)

    def recv_into(self, view: memoryview) -> int:
        """Read as ``socket.recv_into``: 0 at the end. BlockingIOError, OSError."""
        if not self.has_pending:
            data = self._sock.recv(RECEIVE_BYTES)
            if not data:
                return 0
            self._in.write(data)
            self._silent_bytes += len(data)
        count, size = 0, len(view)
        self.has_pending = False
        try:
            while count < size:
                got = int(self.tls.read(size - count, view[count:]))  # into a buffer: a number
                if not got:
                    self._has_ended = True
                    break
                count += got
            self.has_pending = count > 0
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._has_ended = True
            self.has_pending = count > 0
        if count:
            self._silent_bytes = 0
        if max(self._silent_bytes, self._out.pending) > MOST_SILENT_BYTES:
            raise ConnectionAbortedError("the client sends TLS messages without data")
        if not count and not self._has_ended:
            raise BlockingIOError
        return count

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        """Send as ``socket.send``; ``flags`` are for sockets without TLS. BlockingIOError."""
        if self._unsent and not self.flush():
            raise BlockingIOError
        taken = memoryview(data)[:ENCRYPT_BYTES]
        self.tls.write(taken)
        self._take_output()
        self.flush()
        return len(taken)

    def flush(self) -> bool:
        """Send the bytes that wait here; returns whether that was all. OSError."""
        while self._unsent:
            try:
                sent = self._sock.send(self._unsent)
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]
        return True

    def shutdown(self, how: int) -> None:
        """As ``socket.shutdown``, without a TLS alert to the client."""
        self._sock.shutdown(how)

    def close(self) -> None:
        """Send a TLS alert that ends the connection, if the client reads, and close the socket."""
        if not self._unsent:
            with suppress(OSError, ValueError):
                self.tls.unwrap()  # SSLWantReadError: kwire doesn't wait for the client's alert
            with suppress(OSError):
                self._take_output()
                self.flush()
        self._sock.close()

    def _take_output(self) -> None:
        """Take the bytes that TLS has made for the client."""
        made = self._out.read()
        if made:
            self._unsent = (
                memoryview(bytes(self._unsent) + made) if self._unsent else memoryview(made)
            )
