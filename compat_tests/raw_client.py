"""A client that sends single requests in any version and gives back the decoded responses."""

import socket
from types import TracebackType
from typing import Any

from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.types import Request

TIMEOUT_S = 30


class ConnectionClosed(Exception):
    """The broker has closed the connection."""


class RawClient:
    """One connection."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._file = self._socket.makefile("rb")
        self._correlation_id = 0

    def ask(self, request: Request, version: int) -> Any:
        """Send a request and wait for its response; ConnectionClosed where there is none."""
        self.send(request, version)
        return self.receive(request, version)

    def receive(self, request: Request, version: int) -> Any:
        """Wait for the response to the request that was sent last."""
        size = self._file.read(4)
        if len(size) < 4:
            raise ConnectionClosed
        frame = self._file.read(int.from_bytes(size))
        response = message_classes(request.API_KEY)[1]
        correlation_id, position = decode_response_header(frame, response, version)
        assert correlation_id == self._correlation_id
        return decode(response, version, memoryview(frame)[position:])

    def send(self, request: Request, version: int) -> None:
        """Send a request."""
        self._correlation_id += 1
        self._socket.sendall(bytes(encode_request(request, version, self._correlation_id, "raw")))

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
