"""A connection on which a test logs in by itself, message for message, right or wrong."""

import socket
import ssl
from contextlib import suppress

from compat_tests.secured import SecuredBroker
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.types import Request

TIMEOUT_S = 30


class Wire:
    """A connection to a listener; requests have correlation ids that count."""

    def __init__(self, secured: SecuredBroker, protocol: str) -> None:
        self._socket = self._plain = connect(secured, protocol)
        if protocol.endswith("SSL"):
            context = ssl.create_default_context(cafile=str(secured.ca_file))
            self._socket = context.wrap_socket(self._plain, server_hostname="localhost")
        self.sent = 0

    def send(self, *requests: tuple[Request, int]) -> None:
        """Send requests in one piece."""
        frames = []
        for request, version in requests:
            self.sent += 1
            frames.append(bytes(encode_request(request, version, self.sent, "hostile")))
        self.send_bytes(b"".join(frames))

    def send_bytes(self, data: bytes) -> None:
        """Send anything."""
        self._socket.sendall(data)

    def frame(self) -> bytes:
        """The next answer, empty at the end."""
        with suppress(ConnectionError, ssl.SSLError):
            head = self._exactly(4)
            return self._exactly(int.from_bytes(head)) if head else b""
        return b""

    def answered(self) -> list[int]:
        """The correlation ids of the answers until the end; an error is an answer too."""
        found = []
        while frame := self.frame():
            found.append(int.from_bytes(frame[:4]))
        return found

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            some = self._socket.recv(size - len(found))
            if not some:
                return b""
            found += some
        return found

    def authenticate(self, message: bytes) -> SaslAuthenticateResponse | None:
        """Send a message of a login; the answer, or None where the connection ends."""
        frame = b""
        with suppress(OSError):  # the broker may have ended it before
            self.send((SaslAuthenticateRequest(auth_bytes=message), 2))
            frame = self.frame()
        if not frame:
            return None
        _, position = decode_response_header(frame, SaslAuthenticateResponse, 2)
        return decode(SaslAuthenticateResponse, 2, memoryview(frame)[position:])

    def begin(self, mechanism: str) -> None:
        """Say how the client logs in."""
        self.send((SaslHandshakeRequest(mechanism=mechanism), 1))
        assert self.frame()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def connect(secured: SecuredBroker, protocol: str) -> socket.socket:
    """A connection without TLS."""
    host, _, port = secured.bootstrap[protocol].rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)
