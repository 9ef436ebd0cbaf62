"""Where a broker reaches the others of its cluster."""

import errno
from random import Random

import pytest

from kwire.broker.peers import Peers, inter_broker_address
from kwire.config.broker import BrokerConfig
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import AMONG_WORKERS, BrokerImage, MetadataImage
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class Asking:
    """A broker that knows broker 2, at ``host``."""

    def __init__(self, host: str) -> None:
        self.node_id = 1
        self.config = BrokerConfig.load({})
        other = BrokerImage(2, None, (("PLAINTEXT", host, 9093),))
        self.image = MetadataImage(brokers={2: other})
        self.background = None
        self.random = Random(1)

    def integer(self, name: str) -> int:
        return self.config.integer(name)


@pytest.mark.parametrize(
    ("host", "dialed"),
    [("10.0.0.7", "10.0.0.7"), ("0.0.0.0", "127.0.0.1"), ("", "127.0.0.1"), ("::", "::1")],
)
def test_workers_on_every_interface_are_reached_by_loopback(host, dialed):
    """Only workers of this machine register without a host that others reach."""
    assert Peers(Asking(host)).address(2) == (dialed, 9093)


async def test_a_broker_that_does_not_answer_is_not_available(nursery):
    """Whoever asked it gets an error that clients try again after."""
    asking = Asking("127.0.0.1")
    asking.background = nursery

    async def refuse(host, port):
        raise OSError(errno.ECONNREFUSED, "refused")

    peers = Peers(asking, refuse)
    with pytest.raises(KafkaError, match="broker 2 doesn't answer") as raised:
        await peers.ask(2, ApiVersionsRequest(), ApiVersionsResponse)
    assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize("listener", [None, "OUTER"])
def test_workers_reach_each_other_where_their_ports_are_bound(listener):
    """What they advertise may be the outer side of a port mapping."""
    endpoints = (("OUTER", "203.0.113.1", 29093), (AMONG_WORKERS, "0.0.0.0", 9093))
    worker = BrokerImage(2, None, endpoints)
    assert inter_broker_address(worker, listener) == ("127.0.0.1", 9093)
    assert worker.told_endpoints == endpoints[:1]
