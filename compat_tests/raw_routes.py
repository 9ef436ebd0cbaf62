"""Which broker of a cluster a single request is for: a coordinator, a leader, or any broker."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.types import Request

GROUP, TRANSACTION = 0, 1
NO_ID = bytes(16)
FOR_ANY_BROKER = frozenset(
    {"Metadata", "CreateTopics", "DeleteTopics", "CreatePartitions", "FindCoordinator"}
)


class Home(NamedTuple):
    """The coordinator of a group or transactional id."""

    key_type: int
    key: str


class Led(NamedTuple):
    """The leader of a partition; a topic has a name or an id."""

    topic: str
    topic_id: bytes
    index: int


Route = Home | Led


def route_of(request: Request) -> Route | None:
    """What leads to the broker; None if any broker serves the request."""
    name = type(request).__name__.removesuffix("Request")
    if name in FOR_ANY_BROKER:
        return None
    transaction = _transaction(name, request)
    if transaction:
        return Home(TRANSACTION, transaction)
    group = _group(name, request)
    return Home(GROUP, group) if group else _partition(name, request)


def _transaction(name: str, request: Any) -> str:
    if name in ("InitProducerId", "EndTxn", "AddOffsetsToTxn"):
        return request.transactional_id or ""
    if name == "AddPartitionsToTxn":
        old: str = request.v3_and_below_transactional_id
        return old or request.transactions[0].transactional_id
    return ""


def _group(name: str, request: Any) -> str:
    many = {"DescribeGroups": "groups", "DeleteGroups": "groups_names"}
    if name in many or name in ("ConsumerGroupDescribe", "StreamsGroupDescribe"):
        return str(getattr(request, many.get(name, "group_ids"))[0])
    if name == "OffsetFetch" and request.groups:
        return str(request.groups[0].group_id)
    return str(getattr(request, "group_id", ""))


def _partition(name: str, request: Any) -> Led | None:
    if name == "WriteTxnMarkers":
        topic = request.markers[0].topics[0]
        return Led(topic.name, NO_ID, topic.partition_indexes[0])
    if name == "DescribeProducers":
        topic = request.topics[0]
        return Led(topic.name, NO_ID, topic.partition_indexes[0])
    if name == "Produce":
        topic = request.topic_data[0]
        return Led(topic.name, topic.topic_id, topic.partition_data[0].index)
    if name == "Fetch":
        topic = request.topics[0]
        return Led(topic.topic, topic.topic_id, topic.partitions[0].partition)
    if name in ("ListOffsets", "DeleteRecords"):
        topic = request.topics[0]
        return Led(topic.name, NO_ID, topic.partitions[0].partition_index)
    return None


def address_of(route: Route, ask: Callable[[Request, int], Any]) -> str | None:
    """The ``host:port`` for a route, asked of any broker; None as long as there is none."""
    if isinstance(route, Home):
        asked = FindCoordinatorRequest(key_type=route.key_type, coordinator_keys=[route.key])
        [found] = ask(asked, 4).coordinators
        return None if found.error_code else f"{found.host}:{found.port}"
    wanted = MetadataRequestTopic(topic_id=route.topic_id, name=route.topic or None)
    answer = ask(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False), 12)
    [topic] = answer.topics
    leaders = {one.partition_index: one.leader_id for one in topic.partitions}
    nodes = {node.node_id: f"{node.host}:{node.port}" for node in answer.brokers}
    return nodes.get(leaders.get(route.index, -1))
