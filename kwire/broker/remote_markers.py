"""Sends the markers that end a transaction to the brokers that lead its other partitions.

A marker counts as written when its broker has answered. A partition whose broker doesn't answer, or
no longer leads it, is tried again with the newer image. So a marker may be written twice, which
changes nothing: the transaction it ends is over.
"""

from collections.abc import Iterable
from typing import NamedTuple

import trio

from kwire.broker.markers import EndMarker, MarkedBroker
from kwire.coordinator.transaction.state import TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class Sent(NamedTuple):
    """The partitions that were answered, each with its error code, and why others were not."""

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


async def send_markers(
    broker: MarkedBroker, marker: EndMarker, leaders: dict[TopicPartition, int]
) -> Sent:
    """Send a marker to every leader, all at the same time."""
    sent = Sent({}, None)
    by_node: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        by_node.setdefault(leader, []).append(partition)
    failures: list[KafkaError] = []

    async def send(node_id: int, partitions: list[TopicPartition]) -> None:
        try:
            sent.codes.update(await _ask(broker, marker, node_id, partitions))
        except KafkaError as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        for node_id, partitions in by_node.items():
            nursery.start_soon(send, node_id, partitions)
    return sent._replace(failure=failures[0] if failures else None)


async def _ask(
    broker: MarkedBroker, marker: EndMarker, node_id: int, partitions: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """The error code of each partition that one broker leads; KafkaError."""
    if node_id < 0:
        topic, index = partitions[0]
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader")
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, index in partitions:
        named = topics.setdefault(topic, WritableTxnMarkerTopic(name=topic, partition_indexes=[]))
        named.partition_indexes.append(index)
    wanted = WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=list(topics.values()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
    answer = await broker.peers.ask(
        node_id, WriteTxnMarkersRequest(markers=[wanted]), WriteTxnMarkersResponse
    )
    return {
        (topic.name, row.partition_index): ErrorCode(row.error_code)
        for result in answer.markers
        for topic in result.topics
        for row in topic.partitions
    }
