"""Markers for other brokers: transactions that end together share requests."""

from types import SimpleNamespace

import trio

from kwire.broker.markers import EndMarker
from kwire.broker.remote_markers import MOST_PARTITIONS, RemoteMarkers
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)


class OtherBrokers:
    """Brokers that answer when ``gate`` opens; one of them may be away."""

    def __init__(self) -> None:
        self.peers = self
        self.gate = trio.Event()
        self.asked: list[tuple[int, list[int]]] = []
        self.away = -1
        self.unheard = -1
        """The partition that answers leave out."""

    async def ask(self, node_id, request, response):
        self.asked.append((node_id, [marker.producer_id for marker in request.markers]))
        await self.gate.wait()
        if node_id == self.away:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "it is away")
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=index)
                                for index in topic.partition_indexes
                                if index != self.unheard
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )


def _marker(producer_id: int, epoch: int = 0) -> EndMarker:
    return EndMarker(producer_id, epoch, 3, committed=True, transaction_version=2)


async def _sent(markers, brokers: OtherBrokers):
    """What became of (marker, leaders), all sent at once; the gate opens when all wait."""
    sent = {}
    async with trio.open_nursery() as nursery:
        remote = RemoteMarkers(brokers, nursery)  # type: ignore[arg-type]

        async def send(number, marker, leaders):
            sent[number] = await remote.send(marker, leaders)

        for number, (marker, leaders) in enumerate(markers):
            nursery.start_soon(send, number, marker, leaders)
        await trio.testing.wait_all_tasks_blocked()
        brokers.gate.set()
    return SimpleNamespace(**{f"of_{number}": one for number, one in sent.items()})


async def test_transactions_that_end_together_share_a_request():
    """While a request is under way, all markers that come wait for the next one."""
    brokers = OtherBrokers()
    leaders = {("orders", 0): 2, ("orders", 1): 3}
    await _sent([(_marker(producer), leaders) for producer in range(50)], brokers)
    for node_id in (2, 3):
        first, *rest = [producers for node, producers in brokers.asked if node == node_id]
        assert sorted(first + [one for some in rest for one in some]) == list(range(50))
        assert len(rest) <= 1


async def test_each_transaction_gets_its_own_codes():
    brokers = OtherBrokers()
    some, other = {("a", 0): 2, ("a", 3): 2}, {("b", 1): 2}
    sent = await _sent([(_marker(1), some), (_marker(2), other)], brokers)
    assert sent.of_0.codes == dict.fromkeys(some, ErrorCode.NONE)
    assert sent.of_1.codes == dict.fromkeys(other, ErrorCode.NONE)


async def test_a_broker_that_is_away_delays_only_its_own_partitions():
    brokers = OtherBrokers()
    brokers.away = 3
    both = {("a", 0): 2, ("a", 1): 3}
    sent = await _sent([(_marker(1), both), (_marker(2), both)], brokers)
    for one in (sent.of_0, sent.of_1):
        assert one.codes == {("a", 0): ErrorCode.NONE}
        assert one.failure.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert sent.of_0.failure is not sent.of_1.failure


async def test_a_partition_without_leader_is_tried_again():
    brokers = OtherBrokers()
    sent = await _sent([(_marker(1), {("a", 0): -1, ("b", 7): -1})], brokers)
    assert sent.of_0.failure.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert sent.of_0.failure.message == "a-0 has no leader"
    assert not brokers.asked


async def test_the_broker_with_id_0_is_one():
    """As in Kafka, whose ids begin there."""
    brokers = OtherBrokers()
    sent = await _sent([(_marker(1), {("a", 0): 0})], brokers)
    assert sent.of_0.codes == {("a", 0): ErrorCode.NONE}
    assert brokers.asked == [(0, [1])]


async def test_a_partition_that_an_answer_leaves_out_is_tried_again():
    """Else the transaction would count as complete, and stay open in that partition."""
    brokers = OtherBrokers()
    brokers.unheard = 1
    sent = await _sent([(_marker(7), {("orders", 0): 2, ("orders", 1): 2})], brokers)
    assert sent.of_0.codes == {("orders", 0): ErrorCode.NONE}
    assert "orders-1" in str(sent.of_0.failure)


async def test_requests_are_bounded_and_name_a_producer_once():
    """Neither very many partitions nor two ends of one producer are in one request."""
    brokers = OtherBrokers()
    many = {("a", index): 2 for index in range(MOST_PARTITIONS)}
    markers = [(_marker(producer), many) for producer in range(4)]
    few = {("b", 0): 2}
    await _sent([*markers, (_marker(7), few), (_marker(7, 1), few)], brokers)
    assert sorted(one for _, some in brokers.asked for one in some) == [0, 1, 2, 3, 7, 7]
    assert all(len(set(some)) == len(some) for _, some in brokers.asked)
    assert all(len({0, 1, 2, 3}.intersection(some)) <= 1 for _, some in brokers.asked)
