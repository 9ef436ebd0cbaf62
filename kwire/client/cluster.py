"""A cluster as a client sees it: its brokers, the leaders of partitions, the coordinators.

Rules:

- Bootstrap addresses are tried one after the other until one answers. Its Metadata response names
  the brokers by node id. After that, requests may go to any of them.
- A coordinator has a connection of its own, as in Kafka's clients: a broker answers in order, so a
  heartbeat would wait for the fetch before it.
- A coordinator is remembered until it answers NOT_COORDINATOR or is gone.
- If an answer means "not here" or "not yet", the client sends the request again, to the right
  broker, with growing pauses, until ``settings.give_up_s`` has passed. Then ``KafkaError`` names
  the last reason.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TypeVar

import trio

from kwire.client.backoff import Backoff
from kwire.client.errors import CannotConnect, ClientError, ConnectionLost, NoSuchBroker, NotLetIn
from kwire.client.patience import Patience
from kwire.client.peer import OpenStream, Peer, open_tcp
from kwire.client.settings import ClientSettings
from kwire.errors import RETRIABLE, ErrorCode, KafkaError
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.protocol.types import Request, Response

R = TypeVar("R", bound=Response)
T = TypeVar("T")

GROUP = 0
TRANSACTION = 1

TRY_AGAIN = RETRIABLE - {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # mostly a misspelled name
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.ELECTION_NOT_NEEDED,
}
"""Errors after which the same request may soon succeed."""

_COORDINATOR_MOVED = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class Cluster:
    """The brokers behind bootstrap addresses; see ``open_cluster``."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        nursery: trio.Nursery,
        settings: ClientSettings,
        open_stream: OpenStream,
        random: Random,
    ) -> None:
        self.settings = settings
        self.random = random
        self._nursery = nursery
        self._open_stream = open_stream
        self._peers: dict[tuple[str, int, bool], Peer] = {}
        self._bootstrap = list(bootstrap)
        self._nodes: dict[int, tuple[str, int]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self.known_leaders: dict[tuple[str, int], int] = {}
        """The last known leader by topic and partition; it may have moved since."""

    async def any_peer(self) -> Peer:
        """A broker that a request can be sent to; CannotConnect names all addresses tried."""
        addresses = list(dict.fromkeys([*self._nodes.values(), *self._bootstrap]))
        addresses.sort(key=lambda address: not self._peer(*address).is_connected)
        failures = []
        for address in addresses:
            peer = self._peer(*address)
            try:
                await peer.connected()
            except ClientError as error:
                failures.append(error)
            else:
                return peer
        if len(failures) == 1:
            raise failures[0]
        known = any(isinstance(one, NotLetIn) for one in failures)
        raise (NotLetIn if known else CannotConnect)("", "; ".join(map(str, failures)))

    async def ask(
        self,
        request: Request,
        response: type[R],
        *,
        node: int | None = None,
        at_most: int | None = None,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Ask a broker by its node id, or any broker; a ClientError if there is no answer."""
        peer = await self.any_peer() if node is None else await self.peer(node)
        return await peer.ask(
            request, response, at_most=at_most, version=version, timeout_s=timeout_s
        )

    async def metadata(
        self, topics: Iterable[str] | None = (), *, creates: bool = False
    ) -> MetadataResponse:
        """The brokers and these topics (None: all); ``creates`` lets the broker create topics."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
        answer = await self.ask(request, MetadataResponse)
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        return answer

    async def topics(
        self, names: Iterable[str] | None, *, creates: bool = False
    ) -> dict[str, MetadataResponseTopic]:
        """Topics by name (None: all); KafkaError if one does not exist or has no leader yet."""

        async def attempt() -> dict[str, MetadataResponseTopic]:
            answer = await self.metadata(names, creates=creates)
            for topic in answer.topics:
                check(topic.error_code, f"topic {topic.name}")
            return {topic.name or "": topic for topic in answer.topics}

        extra = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if creates else set()
        return await self.retrying(attempt, extra)

    async def peer(self, node: int, *, coordinates: bool = False) -> Peer:
        """A broker by its node id, or the connection to it as a coordinator; NoSuchBroker."""
        if node not in self._nodes:
            await self.metadata()
        if node not in self._nodes:
            raise NoSuchBroker("", f"the cluster has no broker {node}")
        return self._peer(*self._nodes[node], coordinates=coordinates)

    async def nodes(self) -> dict[int, tuple[str, int]]:
        """Host and port of every broker, by node id."""
        if not self._nodes:
            await self.metadata()
        return dict(self._nodes)

    async def coordinator(self, key: str, key_type: int = GROUP) -> int:
        """The node id of a coordinator; KafkaError if there is none yet."""
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        if not self._nodes:
            await self.metadata()
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        peer = await self.any_peer()
        served = await peer.served()
        if served.ranges.get(FindCoordinatorRequest.API_KEY, (0, 0))[1] < 4:
            request.coordinator_keys = []
        else:
            request.key = ""
        answer = await peer.ask(request, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        check(found.error_code, found.error_message or f"looking for the coordinator of {key}")
        self._nodes[found.node_id] = (found.host, found.port)
        self._coordinators[key_type, key] = found.node_id
        return found.node_id

    async def ask_coordinator(
        self,
        key: str,
        request: Request,
        response: type[R],
        codes: Callable[[R], Iterable[int]],
        *,
        key_type: int = GROUP,
        at_most: int | None = None,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Ask the coordinator of a group or transactional id, wherever it has moved.

        ``codes`` names the error codes of an answer. Errors about the coordinator are tried again;
        other errors are left to the caller.
        """

        async def attempt() -> R:
            node = await self.coordinator(key, key_type)
            try:
                peer = await self.peer(node, coordinates=True)
                answer = await peer.ask(
                    request, response, at_most=at_most, version=version, timeout_s=timeout_s
                )
            except ConnectionLost:
                self._coordinators.pop((key_type, key), None)
                raise
            except CannotConnect as error:
                self._coordinators.pop((key_type, key), None)
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
            for number in codes(answer):
                if number in _COORDINATOR_MOVED:
                    self._coordinators.pop((key_type, key), None)
                if number in _COORDINATOR_MOVED or number == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    check(number, f"the coordinator of {key}")
            return answer

        return await self.retrying(attempt)

    async def ask_controller(
        self, request: Request, response: type[R], codes: Callable[[R], Iterable[int]]
    ) -> R:
        """Ask the broker that Metadata names as the controller, again if the controller moved.

        With KRaft this is any broker: it passes the request on.
        """

        async def attempt() -> R:
            controller = (await self.metadata()).controller_id
            node = controller if controller in self._nodes else None
            answer = await self.ask(request, response, node=node)
            if ErrorCode.NOT_CONTROLLER in codes(answer):
                check(ErrorCode.NOT_CONTROLLER, "the controller has moved")
            return answer

        return await self.retrying(attempt)

    async def retrying(
        self, attempt: Callable[[], Awaitable[T]], extra: Iterable[ErrorCode] = ()
    ) -> T:
        """Call ``attempt`` until it raises no error of TRY_AGAIN or ``extra``; the last error."""
        codes = TRY_AGAIN | set(extra)
        backoff, patience = self.backoff(), self.patience()
        deadline_s = trio.current_time() + self.settings.give_up_s
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                pause_s = backoff.next_s()
                if error.code not in codes or trio.current_time() + pause_s > deadline_s:
                    raise
                patience.failed([error])
            await trio.sleep(pause_s)

    def backoff(self) -> Backoff:
        """New pauses for an operation that is tried again."""
        return Backoff(self.settings.backoff_s, self.settings.max_backoff_s, self.random)

    def patience(self, since_s: float | None = None) -> Patience:
        """Tells what a new operation waits for, as the settings say."""
        return Patience(self.settings.tell, since_s)

    def _peer(self, host: str, port: int, *, coordinates: bool = False) -> Peer:
        peer = self._peers.get((host, port, coordinates))
        if peer is None:
            peer = self._peers[host, port, coordinates] = Peer(
                host, port, self._nursery, self.settings, self._open_stream, self.random
            )
        return peer


def check(number: int, what: str) -> None:
    """Raise KafkaError for an error code other than 0; a code that is unknown counts as -1."""
    if number:
        raise KafkaError(ErrorCode(number), what)


@asynccontextmanager
async def open_cluster(
    bootstrap: Sequence[tuple[str, int]],
    settings: ClientSettings | None = None,
    open_stream: OpenStream = open_tcp,
    random: Random | None = None,
) -> AsyncIterator[Cluster]:
    """A cluster for the time of a block; connections are opened when they are needed.

    ``bootstrap`` has hosts and ports. An error in the block is raised as it is, not in a group.
    """
    outcome: Exception | None = None
    async with trio.open_nursery() as nursery:
        cluster = Cluster(
            bootstrap, nursery, settings or ClientSettings(), open_stream, random or Random()
        )
        try:
            yield cluster
        except Exception as error:
            outcome = error
        nursery.cancel_scope.cancel()
    if outcome is not None:
        raise outcome
