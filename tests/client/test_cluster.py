"""The cluster as a client sees it: bootstrap, reconnects, leaders, coordinators, retries."""

from itertools import pairwise
from random import Random

import pytest
import trio

from kwire.client.cluster import open_cluster
from kwire.client.errors import CannotConnect, ConnectionLost, NoSuchBroker
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import LATEST, list_offsets
from kwire.client.peer import Peer
from kwire.client.producer import produce
from kwire.client.settings import ClientSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.record.records import BatchBuilder

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def offsets(request, code_of):
    """The answer to ListOffsets: the offset is the partition times ten."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=row.partition_index,
                        error_code=code_of(row.partition_index),
                        offset=row.partition_index * 10,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def test_another_bootstrap_address_is_tried(brokers, cluster, autojump_clock):
    """One broker that is down is no hindrance."""
    brokers.refused = {1}
    assert (await cluster.metadata()).controller_id == 1
    assert [port for _, port in brokers.opened] == [1, 2]


async def test_an_error_names_every_address(brokers, cluster, autojump_clock):
    """With its own reason."""
    brokers.refused = {1, 2}
    with pytest.raises(CannotConnect, match="h:1: connection refused; h:2: connection refused"):
        await cluster.metadata()


async def test_a_stream_that_does_not_open_is_given_up(autojump_clock):
    """After the time that the settings say."""

    async def never(host, port):
        await trio.sleep_forever()

    settings = ClientSettings(connect_timeout_s=2)
    with pytest.raises(CannotConnect, match="h:1: no connection within 2 s"):
        async with open_cluster([("h", 1)], settings, never) as cluster:
            await cluster.metadata()
    assert trio.current_time() == pytest.approx(2)


async def test_attempts_to_connect_are_further_and_further_apart(brokers, nursery, autojump_clock):
    """Up to the longest pause, with jitter between a half and the whole."""
    brokers.refused = {1}
    peer = Peer("h", 1, nursery, ClientSettings(backoff_s=0.1), brokers.open, Random(7))
    for _ in range(8):
        with pytest.raises(CannotConnect):
            await peer.connected()
    times = [time for time, _ in brokers.opened]
    pauses = [after - before for before, after in pairwise(times)]
    for pause, longest in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1, 1, 1), strict=True):
        assert longest / 2 <= pause <= longest
    brokers.refused = set()
    await peer.connected()
    assert peer.is_connected


async def test_a_lost_connection_is_opened_again(brokers, cluster, autojump_clock):
    """By the next request."""
    await cluster.metadata()
    (await cluster.any_peer()).close()
    await cluster.metadata()
    assert [port for _, port in brokers.opened] == [1, 1]


async def test_a_connection_lost_before_its_first_answer_is_opened_once_more(
    brokers, nursery, autojump_clock
):
    """A broker may just be restarting; a second loss in a row is an error."""
    peer = Peer("h", 1, nursery, ClientSettings(), brokers.open, Random(7))
    brokers.answer = lambda *asked: None
    with pytest.raises(ConnectionLost, match="h:1: the broker closed the connection"):
        await peer.connected()
    assert len(brokers.opened) == 2
    answers = iter([None])
    brokers.answer = lambda *asked: next(answers, brokers.default(*asked))
    await peer.connected()
    assert len(brokers.opened) == 4


async def test_each_leader_is_asked_about_its_own_partitions(brokers, cluster, autojump_clock):
    """At the same time, with one request each."""

    def answer(port, request, version):
        if isinstance(request, ListOffsetsRequest):
            return offsets(request, lambda _: 0)
        return brokers.default(port, request, version)

    brokers.answer = answer
    found = await list_offsets(cluster, {T0: LATEST, T1: LATEST})
    assert found == {T0: 0, T1: 10}
    assert sorted(brokers.named(ListOffsetsRequest)) == [1, 2]
    await list_offsets(cluster, {T0: LATEST})
    assert len(brokers.named(MetadataRequest)) == 1, "the leaders are known"


@pytest.mark.parametrize("code", [6, 3, 74, 5])
async def test_a_leader_that_has_moved_is_found(brokers, cluster, autojump_clock, code):
    """Whatever the old leader says, if the new one is known to the cluster."""

    def answer(port, request, version):
        if isinstance(request, ListOffsetsRequest):
            return offsets(request, lambda index: 0 if port == brokers.leaders[index] else code)
        return brokers.default(port, request, version)

    brokers.answer = answer
    await list_offsets(cluster, {T0: LATEST})
    brokers.leaders[0] = 2
    assert await list_offsets(cluster, {T0: LATEST, T1: LATEST}) == {T0: 0, T1: 10}
    assert brokers.named(ListOffsetsRequest)[-1] == 2


async def test_a_partition_without_a_leader_is_an_error_in_the_end(
    brokers, cluster, autojump_clock
):
    """Others are answered meanwhile."""

    def answer(port, request, version):
        if isinstance(request, ListOffsetsRequest):
            return offsets(request, lambda _: 0)
        return brokers.default(port, request, version)

    brokers.answer = answer
    brokers.leaders[0] = -1
    found = await list_offsets(cluster, {T0: LATEST, T1: LATEST})
    assert found[T1] == 10
    assert isinstance(found[T0], KafkaError)
    assert found[T0].code is ErrorCode.LEADER_NOT_AVAILABLE
    assert 9 < trio.current_time() < 11, "that is give_up_s"


async def test_a_topic_that_does_not_exist_is_an_error_at_once(brokers, cluster, autojump_clock):
    """A misspelt name isn't tried for long."""
    found = await list_offsets(cluster, {TopicPartition("nope", 0): LATEST})
    [error] = found.values()
    assert "UNKNOWN_TOPIC_OR_PARTITION: nope-0 does not exist" in str(error)
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await cluster.topics(["nope"])
    assert trio.current_time() < 1


async def test_acks_0_waits_for_no_answer(brokers, cluster, autojump_clock):
    """The broker sends none."""
    asked = []

    def answer(port, request, version):
        if isinstance(request, ProduceRequest):
            asked.append((request.acks, version))
            return b""
        return brokers.default(port, request, version)

    brokers.answer = answer
    builder = BatchBuilder()
    builder.add(0, None, b"x")
    assert await produce(cluster, {T0: bytes(builder.build())}, acks=0) == {T0: -1}
    await cluster.metadata()
    assert asked == [(0, 12)]


async def test_a_write_whose_answer_is_lost_is_only_repeated_if_allowed(
    brokers, cluster, autojump_clock
):
    """It may have been carried out."""

    def answer(port, request, version):
        if isinstance(request, ProduceRequest):
            return None
        return brokers.default(port, request, version)

    brokers.answer = answer
    builder = BatchBuilder()
    builder.add(0, None, b"x")
    batches = {T0: bytes(builder.build())}
    with pytest.raises(Exception, match="h:1: the broker closed the connection"):
        await produce(cluster, batches, repeats_lost=False)
    assert len(brokers.named(ProduceRequest)) == 1
    [error] = (await produce(cluster, batches)).values()
    assert error.code is ErrorCode.NETWORK_EXCEPTION
    assert len(brokers.named(ProduceRequest)) > 3


class Coordinators:
    """A script with a coordinator that moves."""

    def __init__(self, brokers, homes, *, first_code=ErrorCode.NOT_COORDINATOR):
        self.brokers = brokers
        self.homes = list(homes)
        self.first_code = first_code

    def __call__(self, port, request, version):
        if isinstance(request, FindCoordinatorRequest):
            if self.homes[0] is None:
                self.homes.pop(0)
                found = Coordinator(key="g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                home = self.homes[0]
                found = Coordinator(key="g", node_id=home, host="h", port=home)
            return FindCoordinatorResponse(coordinators=[found])
        if isinstance(request, HeartbeatRequest):
            if len(self.homes) > 1:
                self.homes.pop(0)
                return HeartbeatResponse(error_code=self.first_code)
            return HeartbeatResponse(error_code=0 if port == self.homes[0] else 16)
        return self.brokers.default(port, request, version)


@pytest.mark.parametrize("homes", [[1], [1, 2], [None, None, 2], [None, 1, 2]])
async def test_a_coordinator_is_found_wherever_it_is(brokers, cluster, autojump_clock, homes):
    """At once, after it has moved, or after a broker has just started."""
    brokers.answer = Coordinators(brokers, homes)
    request = HeartbeatRequest(group_id="g")
    found = await cluster.ask_coordinator(
        "g", request, HeartbeatResponse, lambda answer: [answer.error_code]
    )
    assert found.error_code == 0
    assert brokers.named(HeartbeatRequest)[-1] == homes[-1]


async def test_a_coordinator_that_is_down_is_looked_for_again(brokers, cluster, autojump_clock):
    """The remembered one isn't asked for ever."""
    brokers.answer = Coordinators(brokers, [2])
    request = HeartbeatRequest(group_id="g")

    async def ask():
        return await cluster.ask_coordinator(
            "g", request, HeartbeatResponse, lambda answer: [answer.error_code]
        )

    await ask()
    brokers.refused = {2}
    (await cluster.peer(2, coordinates=True)).close()
    brokers.answer = Coordinators(brokers, [1])
    assert (await ask()).error_code == 0
    assert brokers.named(HeartbeatRequest) == [2, 1]


async def test_an_error_of_the_group_is_left_to_the_caller(brokers, cluster, autojump_clock):
    """REBALANCE_IN_PROGRESS isn't tried again."""
    brokers.answer = Coordinators(brokers, [1, 1], first_code=ErrorCode.REBALANCE_IN_PROGRESS)
    found = await cluster.ask_coordinator(
        "g", HeartbeatRequest(group_id="g"), HeartbeatResponse, lambda answer: [answer.error_code]
    )
    assert found.error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_broker_that_the_cluster_does_not_have(brokers, cluster, autojump_clock):
    """It is named."""
    with pytest.raises(NoSuchBroker, match="the cluster has no broker 7"):
        await cluster.ask(HeartbeatRequest(), HeartbeatResponse, node=7)
