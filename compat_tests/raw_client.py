"""A client that sends single requests in any version and gives back the decoded responses."""

import socket
from types import TracebackType
from typing import Any

from compat_tests.raw_routes import Route, address_of, route_of
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.types import Request

TIMEOUT_S = 30


def open_socket(address: tuple[str, int], own: tuple[str, int] | None) -> socket.socket:
    """A connection to a broker. ``secured_clients`` has another function in this place."""
    return socket.create_connection(address, TIMEOUT_S, own)


class ConnectionClosed(Exception):
    """The broker has closed the connection."""


class RawConnection:
    """One connection to one broker, from an address of this machine, if one is given."""

    def __init__(self, address: str, own_host: str | None = None) -> None:
        host, _, port = address.rpartition(":")
        own = (own_host, 0) if own_host else None
        self._socket = open_socket((host, int(port)), own)
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


class RawClient:
    """One connection to one broker; of several brokers each request goes to the one it is for."""

    def __init__(self, bootstrap: str) -> None:
        first, *others = bootstrap.split(",")
        self._is_cluster = bool(others)
        self._first = self._default = first
        self._connections = {first: RawConnection(first)}
        self._addresses: dict[Route, str] = {}
        self._last = self._connections[first]

    def ask(self, request: Request, version: int) -> Any:
        """Send a request and wait for its response; ConnectionClosed where there is none."""
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Request, version: int) -> None:
        """Send a request."""
        self._last = self._connection(request)
        self._last.send(request, version)

    def receive(self, request: Request, version: int) -> Any:
        """Wait for the response to the request that was sent last."""
        return self._last.receive(request, version)

    def address(self, route: Route) -> str:
        """The broker for a route; the first one, which says why, as long as there is none."""
        found = self._addresses.get(route)
        found = found or address_of(route, self._connections[self._first].ask)
        if found is None:
            return self._first
        self._addresses[route] = found
        return found

    def move_to(self, route: Route) -> None:
        """Send what any broker serves to the broker for a route from now on."""
        if self._is_cluster:
            self._default = self.address(route)

    def _connection(self, request: Request) -> RawConnection:
        route = route_of(request) if self._is_cluster else None
        address = self._default if route is None else self.address(route)
        if address not in self._connections:
            self._connections[address] = RawConnection(address)
        return self._connections[address]

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
