"""A broker that is a script: it answers requests in memory, in simulated time."""

import socket
from collections.abc import Callable
from random import Random

import pytest
import trio
from trio.testing import memory_stream_pair

from kwire.client.cluster import Cluster, open_cluster
from kwire.client.settings import ClientSettings
from kwire.protocol.codec import decoder
from kwire.protocol.frame import decode_request_header, encode_response, skip_header_tags
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol.types import Request, Response, is_flexible

SERVED = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18, 68)


def socket_stream_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Two ends of a connection over TCP, which needs no task to be opened."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    ours, theirs = (trio.socket.from_stdlib_socket(one) for one in (near, far))
    return trio.SocketStream(ours), trio.SocketStream(theirs)


class ScriptedBrokers:
    """Brokers by port, all on one host. ``answer(port, request, version)`` is the script.

    An answer of None closes the connection. ``requests`` has the port, the request and its version
    of everything but ApiVersions. With ``has_sockets`` streams are sockets, not memory.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.answer: Callable[[int, Request, int], Response | bytes | None] = self.default
        self.requests: list[tuple[int, Request, int]] = []
        self.refused: set[int] = set()
        self.opened: list[tuple[float, int]] = []
        self.leaders = {0: 1, 1: 2}
        self.ranges = {key: message_classes(key)[0].VERSIONS for key in SERVED}
        self.gate: trio.Event | None = None
        self.gated: type[Request] = Request
        self.has_sockets = False

    async def open(self, host: str, port: int) -> trio.abc.Stream:
        """A stream to one of the brokers."""
        self.opened.append((trio.current_time(), port))
        if port in self.refused:
            raise ConnectionRefusedError(111, "Connection refused")
        ours, theirs = socket_stream_pair() if self.has_sockets else memory_stream_pair()
        self.nursery.start_soon(self._serve, theirs, port)
        return ours

    async def _serve(self, stream: trio.abc.Stream, port: int) -> None:
        buffer = bytearray()
        try:
            async for part in stream:
                buffer += part
                while len(buffer) >= 4 and len(buffer) >= 4 + int.from_bytes(buffer[:4]):
                    end = 4 + int.from_bytes(buffer[:4])
                    frame = bytes(buffer[4:end])
                    del buffer[:end]
                    await self._respond(stream, port, frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _respond(self, stream: trio.abc.Stream, port: int, frame: bytes) -> None:
        header, position = decode_request_header(frame)
        request_class, _ = message_classes(header.api_key)
        version = header.api_version
        if is_flexible(request_class, version):
            position = skip_header_tags(frame, position)
        request = decoder(request_class, version)(frame, position)[0]
        if not isinstance(request, ApiVersionsRequest):
            self.requests.append((port, request, version))
            if self.gate is not None and isinstance(request, self.gated):
                await self.gate.wait()
        answer = self.answer(port, request, version)
        if answer is None:
            await stream.aclose()
        elif isinstance(answer, bytes):
            await stream.send_all(answer)
        else:
            out, _ = encode_response(answer, version, header.correlation_id)
            await stream.send_all(bytes(out))

    def default(self, port: int, request: Request, version: int) -> Response | None:
        """Two brokers, 1 on port 1 and 2 on port 2, that lead the partitions of topic t."""
        if isinstance(request, ApiVersionsRequest):
            keys = [
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in self.ranges.items()
            ]
            return ApiVersionsResponse(api_keys=keys)
        if isinstance(request, MetadataRequest):
            names = ["t"] if request.topics is None else [one.name for one in request.topics]
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)],
                controller_id=1,
                topics=[self._topic(name) for name in names],
            )
        raise AssertionError(f"the script has no answer to {request}")

    def _topic(self, name: str | None) -> MetadataResponseTopic:
        if name != "t":
            return MetadataResponseTopic(name=name, error_code=3)
        rows = [
            MetadataResponsePartition(
                partition_index=index, leader_id=leader, replica_nodes=[1, 2], isr_nodes=[1, 2]
            )
            for index, leader in self.leaders.items()
        ]
        return MetadataResponseTopic(name=name, topic_id=bytes(range(16)), partitions=rows)

    def named(self, request: type[Request]) -> list[int]:
        """The ports that got a request of a class, in order."""
        return [port for port, found, _ in self.requests if isinstance(found, request)]


@pytest.fixture
async def brokers(nursery: trio.Nursery) -> ScriptedBrokers:
    """Two scripted brokers."""
    return ScriptedBrokers(nursery)


@pytest.fixture
async def cluster(brokers: ScriptedBrokers) -> Cluster:
    """A client of the scripted brokers, with little patience and fixed random numbers."""
    settings = ClientSettings(
        connect_timeout_s=2, request_timeout_s=3, give_up_s=10, backoff_s=0.1, max_in_flight=3
    )
    async with open_cluster([("h", 1), ("h", 2)], settings, brokers.open, Random(7)) as found:
        yield found
