"""Questions to the brokers of a cluster, for its tests."""

from kwire.protocol.messages.create_topics import (
    CreateTopicsResponse,
)
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing.asking import Asker
from kwire.testing.process import BrokerProcess
from tests.support.requests import create_topics_request

PARTITIONS = 6
FEW = {"offsets.topic.num.partitions": "6", "transaction.state.log.num.partitions": "6"}


def metadata(broker: BrokerProcess) -> MetadataResponse:
    """What a broker tells of all brokers and topics."""
    request = MetadataRequest(topics=None)
    return Asker().ask(broker.bootstrap, request, 12, MetadataResponse)


def create(broker: BrokerProcess, name: str, partitions: int, replicas: int = 1) -> None:
    """Create a topic."""
    request = create_topics_request(name, partitions=partitions, replicas=replicas)
    (created,) = Asker().ask(broker.bootstrap, request, 7, CreateTopicsResponse).topics
    assert created.error_code == 0, created.error_message


def leaders(broker: BrokerProcess, name: str) -> list[int]:
    """The leaders of a topic, as this broker tells them."""
    found = [topic for topic in metadata(broker).topics if topic.name == name]
    return [p.leader_id for topic in found for p in topic.partitions]


def coordinator(broker: BrokerProcess, key: str, key_type: int = 0) -> tuple[int, int]:
    """Node id and port of a coordinator, as this broker tells them."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    answer = Asker().ask(broker.bootstrap, request, 6, FindCoordinatorResponse)
    (found,) = answer.coordinators
    return (found.node_id, found.port) if not found.error_code else (-1, -1)


def bootstrap_of(brokers: dict[int, BrokerProcess]) -> str:
    """The addresses of all brokers."""
    return ",".join(broker.bootstrap for broker in brokers.values())
