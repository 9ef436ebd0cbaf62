"""The other brokers of a cluster, to which this broker sends requests.

Rules:

- Requests go to the listener that ``inter.broker.listener.name`` names, else to the first listener
  of the other broker.
- One connection to each broker carries all requests, in their order. It is opened with the first
  request, and again when a broker has come back, perhaps at another address.
- A broker that is fenced or unknown isn't asked.
- Workers on the same machine reach each other at their bound addresses, because the advertised
  address may be the outer side of a port mapping, which they can't dial themselves. For a port that
  is bound to every interface, they use the loopback interface.
"""

from random import Random
from typing import Protocol, TypeVar

import trio

from kwire.client.errors import ClientError
from kwire.client.peer import OpenStream, Peer, open_tcp
from kwire.client.settings import ClientSettings
from kwire.config.broker import BrokerConfig, is_every_interface
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import AMONG_WORKERS, BrokerImage, MetadataImage
from kwire.protocol.types import Request, Response

R = TypeVar("R", bound=Response)


def inter_broker_address(broker: BrokerImage, listener: object) -> tuple[str, int] | None:
    """A broker's address for other brokers: the listener of this name, the first one for None.

    A worker is reached at the endpoint that it has for other workers.
    """
    for name, host, port in broker.endpoints:
        if name == AMONG_WORKERS:
            return _dialed(host), port
    for name, host, port in broker.endpoints:
        if listener is None or name == listener:
            return _dialed(host), port
    return None


class PeersBroker(Protocol):
    """A broker, for code that asks other brokers."""

    node_id: int
    config: BrokerConfig
    image: MetadataImage
    background: trio.Nursery
    random: Random

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""


class Peers:
    """The connections of one broker to the others."""

    def __init__(self, broker: PeersBroker, open_stream: OpenStream = open_tcp) -> None:
        self._broker = broker
        self.open_stream = open_stream
        self._peers: dict[int, tuple[tuple[str, int], Peer]] = {}
        self._settings = ClientSettings(
            client_id=f"broker-{broker.node_id}",
            request_timeout_s=broker.integer("request.timeout.ms") / 1000,
        )

    async def ask(
        self,
        node_id: int,
        request: Request,
        response: type[R],
        *,
        version: int | None = None,
    ) -> R:
        """A broker's answer; KafkaError (BROKER_NOT_AVAILABLE) if there is none.

        ``version`` is for APIs that brokers don't advertise.
        """
        peer = self._peer(node_id)
        try:
            return await peer.ask(request, response, version=version)
        except ClientError as error:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} doesn't answer: {error}"
            ) from error

    def _peer(self, node_id: int) -> Peer:
        address = self.address(node_id)
        known = self._peers.get(node_id)
        if known is not None and known[0] == address:
            return known[1]
        if known is not None:
            known[1].close()
        peer = Peer(
            *address,
            self._broker.background,
            self._settings,
            self.open_stream,
            self._broker.random,
        )
        self._peers[node_id] = address, peer
        return peer

    def address(self, node_id: int) -> tuple[str, int]:
        """A broker's address for other brokers; KafkaError."""
        broker = self._broker.image.brokers.get(node_id)
        if broker is None or broker.is_fenced:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not available")
        name = self._broker.config.inter_broker_name
        address = inter_broker_address(broker, name)
        if address is not None:
            return address
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"broker {node_id} has no listener {name} (inter.broker.listener.name)",
        )


def _dialed(host: str) -> str:
    if is_every_interface(host):
        return "::1" if host == "::" else "127.0.0.1"
    return host
