"""Requests of the test helpers: one connection, one request at a time, no event loop.

The helpers use the broker's port, so they work with a broker in a thread, in a process of its own,
and with Apache Kafka.
"""

import socket
import threading
from typing import TypeVar

from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.types import Request, Response

CLIENT_ID = "kwire.testing"
TIMEOUT_S = 10.0
_SIZE_BYTES = 4

_R = TypeVar("_R", bound=Response)


class NoAnswer(Exception):
    """The broker doesn't answer; the text says whether its port can be reached."""


class Asker:
    """A connection to a broker, which is made again if it has ended; threads may share it."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._address = ""
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def ask(
        self,
        address: str,
        request: Request,
        version: int,
        response: type[_R],
        client_id: str = CLIENT_ID,
    ) -> _R:
        """Send a request to ``host:port`` and return its response; NoAnswer if there is none."""
        with self._lock:
            if address != self._address or self._has_ended():
                self.close()
                self._address = address
            try:
                if self._socket is None:
                    host, _, port = address.rpartition(":")
                    self._socket = socket.create_connection(
                        (host.strip("[]"), int(port)), self._timeout_s
                    )
                return self._ask(self._socket, request, version, response, client_id)
            except OSError as error:
                self.close()
                raise NoAnswer(f"the broker at {address} does not answer: {error}") from error

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _has_ended(self) -> bool:
        """Whether the broker has closed the connection, for instance because it was restarted."""
        if self._socket is None:
            return True
        self._socket.setblocking(False)
        try:
            return self._socket.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self._socket.settimeout(self._timeout_s)

    def _ask(
        self,
        connection: socket.socket,
        request: Request,
        version: int,
        response: type[_R],
        client_id: str,
    ) -> _R:
        assert message_classes(request.API_KEY)[1] is response
        connection.sendall(bytes(encode_request(request, version, 1, client_id)))
        answer = _receive(connection, int.from_bytes(_receive(connection, _SIZE_BYTES)))
        _, position = decode_response_header(answer, response, version)
        return decode(response, version, memoryview(answer)[position:])


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < size_bytes:
        part = connection.recv(size_bytes - len(received))
        if not part:
            raise ConnectionError("the connection was closed")
        received += part
    return bytes(received)
