"""Sends the markers that end transactions to the brokers that lead their other partitions.

Rules:

- A marker counts as written when its broker has answered. A partition whose broker doesn't answer,
  or no longer leads it, is tried again with the newer image. So a marker may be written twice,
  which does no harm: the transaction that it ends is already over.
- Transactions that end at the same time share requests (``shared_requests``).

Source: TransactionMarkerChannelManager of Kafka.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import trio

from kwire.broker.markers import EndMarker, MarkedBroker
from kwire.broker.shared_requests import SharedRequests, Wanted
from kwire.coordinator.transaction.state import TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MOST_PARTITIONS = 1000
"""A request with this many partitions takes no further transaction."""


class Sent(NamedTuple):
    """The partitions in the answers, each with its error code, and why others got no answer."""

    codes: dict[TopicPartition, ErrorCode]
    failure: KafkaError | None


def leaders_elsewhere(
    broker: MarkedBroker, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The partitions that other brokers lead, each with its leader; -1 if it has none now."""
    found = {}
    for topic, index in partitions:
        image = broker.image.partition(topic, index)
        if image is None or broker.partition_if_served(topic, index) is not None:
            continue
        if image.leader != broker.node_id:
            found[topic, index] = image.leader
    return found


class _Wanted(Wanted):
    """A marker for partitions of one broker, and the error codes of those that were answered."""

    __slots__ = ("codes", "marker", "partitions")

    def __init__(self, marker: EndMarker, partitions: list[TopicPartition]) -> None:
        super().__init__()
        self.marker = marker
        self.partitions = partitions
        self.codes: dict[TopicPartition, ErrorCode] = {}


class RemoteMarkers:
    """The markers of one broker's transactions for other brokers; requests run in ``nursery``."""

    def __init__(self, broker: MarkedBroker, nursery: trio.Nursery) -> None:
        self._requests = SharedRequests(nursery, _chosen, partial(_send_markers, broker))

    async def send(self, marker: EndMarker, leaders: dict[TopicPartition, int]) -> Sent:
        """Send a marker to every leader, to all at the same time."""
        by_node: dict[int, list[TopicPartition]] = {}
        for partition, leader in leaders.items():
            by_node.setdefault(leader, []).append(partition)
        wanted = {node_id: _Wanted(marker, some) for node_id, some in by_node.items()}
        for node_id, one in wanted.items():
            self._requests.add(node_id, one)
        sent = Sent({}, None)
        for one in wanted.values():
            await one.done.wait()
            sent.codes.update(one.codes)
            sent = sent._replace(failure=sent.failure or one.failure)
        left_out = sorted(leaders.keys() - sent.codes.keys())
        if left_out and sent.failure is None:
            topic, index = left_out[0]
            text = f"the leader of {topic}-{index} has not said what became of the marker"
            sent = sent._replace(failure=KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text))
        return sent


def _chosen(waiting: Sequence[_Wanted]) -> list[_Wanted]:
    """The markers for the next request: one of each producer, in order, and not too many."""
    together: dict[int, _Wanted] = {}
    partitions = 0
    for one in waiting:
        if one.marker.producer_id in together or (together and partitions >= MOST_PARTITIONS):
            break
        together[one.marker.producer_id] = one
        partitions += len(one.partitions)
    assert together, waiting  # ``SharedRequests`` asks only for what waits
    return list(together.values())


async def _send_markers(broker: MarkedBroker, node_id: int, together: list[_Wanted]) -> None:
    """Have one broker write markers, and note the error code of each partition; KafkaError."""
    if node_id < 0:
        topic, index = together[0].partitions[0]
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader")
    request = WriteTxnMarkersRequest(markers=[_encoded(one) for one in together])
    answer = await broker.peers.ask(node_id, request, WriteTxnMarkersResponse)
    by_producer = {one.marker.producer_id: one.codes for one in together}
    for result in answer.markers:
        codes = by_producer.get(result.producer_id, {})
        for told in result.topics:
            for row in told.partitions:
                codes[told.name, row.partition_index] = ErrorCode(row.error_code)


def _encoded(wanted: _Wanted) -> WritableTxnMarker:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, index in wanted.partitions:
        named = topics.setdefault(topic, WritableTxnMarkerTopic(name=topic, partition_indexes=[]))
        named.partition_indexes.append(index)
    marker = wanted.marker
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=list(topics.values()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
