"""The new leader of a partition, in the answers of Produce, Fetch and share groups (KIP-951).

Behavior: an answer with NOT_LEADER_OR_FOLLOWER, in Fetch also with FENCED_LEADER_EPOCH, names the
leader and its epoch, and the response has the leader's address. So a client can ask the right
broker without a Metadata request. A partition without a leader has leader -1 and no address.

Rule: a request may name 200,000 partitions that have moved. So the work is done in pieces, whose
cost the caller counts.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any

from kwire.errors import ErrorCode
from kwire.handlers.lib.advertised_listeners import advertised_brokers
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import pieces
from kwire.protocol.messages import fetch, produce

PRODUCE_SINCE = 10
FETCH_SINCE = 16

_MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
_INDEX_IN_PRODUCE, _INDEX_IN_FETCH = attrgetter("index"), attrgetter("partition_index")
_MOVED_OR_FENCED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def hint_producer(response: produce.ProduceResponse, context: RequestContext) -> Iterator[None]:
    """Add the leaders to an answer that has errors; yields before each piece of work."""
    if context.api_version >= PRODUCE_SINCE:
        rows = (
            (topic.name, topic.topic_id, piece)
            for topic in response.responses
            for piece in pieces(topic.partition_responses)
        )
        yield from _hint(response, rows, _INDEX_IN_PRODUCE, (_MOVED,), produce, context)


def hint_consumer(response: fetch.FetchResponse, context: RequestContext) -> Iterator[None]:
    """Add the leaders to an answer that has errors; yields before each piece of work."""
    if context.api_version >= FETCH_SINCE:
        rows = (
            (topic.topic, topic.topic_id, piece)
            for topic in response.responses
            for piece in pieces(topic.partitions)
        )
        yield from _hint(response, rows, _INDEX_IN_FETCH, _MOVED_OR_FENCED, fetch, context)


def hint_member(response: Any, context: RequestContext) -> Iterator[None]:
    """Add the leaders to an answer of ShareFetch or ShareAcknowledge; otherwise as above."""
    rows = (
        ("", topic.topic_id, piece)
        for topic in response.responses
        for piece in pieces(topic.partitions)
    )
    messages = sys.modules[type(response).__module__]
    yield from _hint(response, rows, _INDEX_IN_FETCH, _MOVED_OR_FENCED, messages, context)


def _hint(
    response: Any,
    rows: Iterable[tuple[str, bytes, Sequence[Any]]],
    index_of: Callable[[Any], int],
    errors: Collection[int],
    messages: ModuleType,
    context: RequestContext,
) -> Iterator[None]:
    """Name the leader in each failed partition's answer, and the leaders' addresses once.

    Produce and Fetch have the same fields, but each module of messages has classes of its own.
    """
    nodes: set[int] = set()
    for name, topic_id, answers in rows:
        yield
        failed = [one for one in answers if one.error_code in errors]
        for answer in failed:
            found = _leader(name, topic_id, index_of(answer), context)
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
        for node_id, host, port, rack, _ in advertised_brokers(context):
            if node_id in nodes:
                yield node_id, host, port, rack
