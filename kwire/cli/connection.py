"""A command's connection to a broker: one request, one response, no event loop."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.types import Request

TIMEOUT_S = 5.0
_SIZE_BYTES = 4


class Connection:
    """One connection. OSError if the broker can't be reached, closes it, or doesn't answer."""

    def __init__(self, host: str, port: int) -> None:
        self._address = f"{host}:{port}"
        with self._patience():
            self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._correlation_id = 0

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Request, version: int) -> Any:
        """Send a request and return its response."""
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, "kwire")
        with self._patience():
            self._socket.sendall(bytes(frame))
            answer = self._receive(int.from_bytes(self._receive(_SIZE_BYTES)))
        response = message_classes(request.API_KEY)[1]
        _, position = decode_response_header(answer, response, version)
        return decode(response, version, memoryview(answer)[position:])

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Make a TimeoutError name the broker."""
        try:
            yield
        except TimeoutError as error:
            raise TimeoutError(f"{self._address} does not answer") from error

    def _receive(self, size_bytes: int) -> bytes:
        received = bytearray()
        while len(received) < size_bytes:
            part = self._socket.recv(size_bytes - len(received))
            if not part:
                raise ConnectionError("the connection was closed")
            received += part
        return bytes(received)
