"""Who leads a partition instead, in the answers of Produce and Fetch (KIP-951).

Behavior: an answer with NOT_LEADER_OR_FOLLOWER, in Fetch also with FENCED_LEADER_EPOCH, names the
leader and its epoch, and the response has the leader's address. So a client needs no Metadata
request before it asks the right broker. A partition without a leader has leader -1 and no address.
"""

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from kwire.errors import ErrorCode
from kwire.handlers.context import RequestContext
from kwire.handlers.seen_brokers import seen_brokers
from kwire.protocol.messages import fetch, produce

PRODUCE_SINCE = 10
FETCH_SINCE = 16

_MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
_MOVED_OR_FENCED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def hint_producer(response: produce.ProduceResponse, context: RequestContext) -> None:
    """Add the leaders to an answer that has errors."""
    if context.api_version >= PRODUCE_SINCE:
        failed = [
            (topic.name, topic.topic_id, one.index, one)
            for topic in response.responses
            for one in topic.partition_responses
            if one.error_code == _MOVED
        ]
        _hint(response, failed, produce, context)


def hint_consumer(response: fetch.FetchResponse, context: RequestContext) -> None:
    """Add the leaders to an answer that has errors."""
    if context.api_version >= FETCH_SINCE:
        failed = [
            (topic.topic, topic.topic_id, one.partition_index, one)
            for topic in response.responses
            for one in topic.partitions
            if one.error_code in _MOVED_OR_FENCED
        ]
        _hint(response, failed, fetch, context)


def _hint(
    response: Any,
    failed: list[tuple[str, bytes, int, Any]],
    messages: ModuleType,
    context: RequestContext,
) -> None:
    """Name the leader in each failed partition's answer, and the leaders' addresses once.

    Produce and Fetch have the same fields, but each module of messages has classes of its own.
    """
    nodes: set[int] = set()
    for name, topic_id, index, answer in failed:
        found = _leader(name, topic_id, index, context)
        if found is not None:
            nodes.add(found[0])
            answer.current_leader = messages.LeaderIdAndEpoch(
                leader_id=found[0], leader_epoch=found[1]
            )
    response.node_endpoints = [
        messages.NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
        for node, host, port, rack in _addresses(nodes, context)
    ]


def _leader(
    name: str, topic_id: bytes, index: int, context: RequestContext
) -> tuple[int, int] | None:
    """The node id and epoch of a partition's leader; None for an unknown partition."""
    image = context.broker.image
    topic = image.topics_by_name.get(name) or image.topics_by_id.get(topic_id)
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    partition = topic.partitions[index]
    return partition.leader, partition.leader_epoch


def _addresses(
    nodes: set[int], context: RequestContext
) -> Iterable[tuple[int, str, int, str | None]]:
    """Node id, host, port and rack of the leaders that this client can reach."""
    if nodes:
        for node_id, host, port, rack, _ in seen_brokers(context):
            if node_id in nodes:
                yield node_id, host, port, rack
