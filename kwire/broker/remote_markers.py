"""Sends the markers that end transactions to the brokers that lead their other partitions.

Rules:

- A marker counts as written when its broker has answered. A partition whose broker doesn't answer,
  or no longer leads it, is tried again with the newer image. So a marker may be written twice,
  which changes nothing: the transaction it ends is over.
- Each broker is asked one request at a time. Markers that are decided meanwhile wait, and go
  together in the next one: many transactions that end at once cost few requests.

Source: TransactionMarkerChannelManager of Kafka.
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

MOST_PARTITIONS = 1000
"""A request with this many partitions takes no further transaction."""


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


class _Wanted:
    """A marker for partitions of one broker; ``done`` is set when its result is known."""

    __slots__ = ("codes", "done", "failure", "marker", "partitions")

    def __init__(self, marker: EndMarker, partitions: list[TopicPartition]) -> None:
        self.marker = marker
        self.partitions = partitions
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.failure: KafkaError | None = None
        self.done = trio.Event()


class RemoteMarkers:
    """The markers of one broker's transactions for other brokers; requests run in ``nursery``."""

    def __init__(self, broker: MarkedBroker, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._nursery = nursery
        self._waiting: dict[int, list[_Wanted]] = {}

    async def send(self, marker: EndMarker, leaders: dict[TopicPartition, int]) -> Sent:
        """Send a marker to every leader, to all at the same time."""
        by_node: dict[int, list[TopicPartition]] = {}
        for partition, leader in leaders.items():
            by_node.setdefault(leader, []).append(partition)
        wanted = {node_id: _Wanted(marker, some) for node_id, some in by_node.items()}
        for node_id, one in wanted.items():
            if node_id in self._waiting:
                self._waiting[node_id].append(one)
            else:
                self._waiting[node_id] = [one]
                self._nursery.start_soon(self._ask_all, node_id)
        sent = Sent({}, None)
        for one in wanted.values():
            await one.done.wait()
            sent.codes.update(one.codes)
            sent = sent._replace(failure=sent.failure or one.failure)
        return sent

    async def _ask_all(self, node_id: int) -> None:
        """Ask a broker until no marker waits for it."""
        waiting = self._waiting[node_id]
        while waiting:
            together = _taken(waiting)
            try:
                await _ask(self._broker, node_id, together)
            except KafkaError as error:
                for one in together:
                    one.failure = KafkaError(error.code, error.message)
                    one.failure.__cause__ = error
            for one in together:
                one.done.set()
        del self._waiting[node_id]


def _taken(waiting: list[_Wanted]) -> list[_Wanted]:
    """Take what goes in the next request: one marker of each producer, and not too many."""
    together: dict[int, _Wanted] = {}
    partitions = 0
    for one in waiting:
        if one.marker.producer_id in together or (together and partitions >= MOST_PARTITIONS):
            break
        together[one.marker.producer_id] = one
        partitions += len(one.partitions)
    del waiting[: len(together)]
    return list(together.values())


async def _ask(broker: MarkedBroker, node_id: int, together: list[_Wanted]) -> None:
    """Have one broker write markers, and note the error code of each partition; KafkaError."""
    if node_id < 0:
        topic, index = together[0].partitions[0]
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader")
    request = WriteTxnMarkersRequest(markers=[_encoded(one) for one in together])
    answer = await broker.peers.ask(node_id, request, WriteTxnMarkersResponse)
    by_producer = {one.marker.producer_id: one for one in together}
    for result in answer.markers:
        codes = by_producer[result.producer_id].codes
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
