"""Produce and Fetch name the new leader of a partition that has moved (KIP-951), over a socket."""

import pytest

from kwire.budget.work import Turns, Work
from kwire.errors import ErrorCode
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.leader_hints import hint_consumer
from kwire.handlers.lib.slices import PIECE
from kwire.metadata.changes import (
    BrokerRegistered,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from kwire.metadata.image import BrokerImage, PartitionImage, TopicImage
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from tests.support.records import batch
from tests.support.requests import produce_request

TOPIC, OTHER, ID = "orders", 2, b"moved, and back!"
NAMES_TOPICS, IDS_TOPICS = 12, 18


@pytest.fixture
def move(server):
    """The topic is deleted, and is there again on another broker."""

    async def run() -> None:
        async def delete(image):
            return [TopicDeleted(image.topics_by_name[TOPIC].topic_id)]

        async def create(image):
            row = PartitionImage(leader=OTHER, leader_epoch=4, replicas=(OTHER,), isr=(OTHER,))
            other = BrokerImage(OTHER, "r2", (("PLAINTEXT", "127.0.0.2", 9999),))
            return [BrokerRegistered(other), TopicCreated(TopicImage(TOPIC, ID, (row,), 1))]

        await server.broker.commit(delete)
        await server.broker.commit(create)

    return run


@pytest.fixture
def new_epoch(server):
    """This broker leads the partition again, in the next epoch."""

    async def run() -> None:
        async def decide(image):
            topic = image.topics_by_name[TOPIC]
            row = topic.partitions[0]
            newer = row._replace(leader_epoch=row.leader_epoch + 1)
            return [PartitionsChanged(topic.topic_id, ((0, newer),))]

        await server.broker.commit(decide)

    return run


def _fetch(server, epoch: int = -1, **fields: object) -> FetchRequest:
    topic_id = server.broker.image.topics_by_name[TOPIC].topic_id
    wanted = FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=epoch
    )
    topics = [FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[wanted])]
    return FetchRequest(topics=topics, max_wait_ms=0, min_bytes=1, **fields)


def _told(answer: FetchResponse) -> tuple[object, ...]:
    [row] = answer.responses[0].partitions
    leader = row.current_leader
    nodes = [(n.node_id, n.host, n.port, n.rack) for n in answer.node_endpoints]
    named = None if leader is None else (leader.leader_id, leader.leader_epoch)
    return ErrorCode(row.error_code), named, nodes


async def test_a_fetch_names_the_new_leader(server, move):
    """With its address and rack from version 16 on; older versions say only that it has moved."""
    client = await server.connect()
    await move()
    answer = await client.request(_fetch(server), IDS_TOPICS, FetchResponse)
    here = [(OTHER, "127.0.0.2", 9999, "r2")]
    assert _told(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (OTHER, 4), here)
    answer = await client.request(_fetch(server), NAMES_TOPICS, FetchResponse)
    assert _told(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None, [])


async def test_a_fetch_with_an_old_epoch_names_this_broker(server, new_epoch):
    """The leader is the one that was asked: FENCED_LEADER_EPOCH, and the newer epoch."""
    client = await server.connect()
    await new_epoch()
    answer = await client.request(_fetch(server, epoch=0), IDS_TOPICS, FetchResponse)
    error, leader, [node] = _told(answer)
    assert (error, leader) == (ErrorCode.FENCED_LEADER_EPOCH, (server.broker.node_id, 1))
    assert node[:3] == (server.broker.node_id, server.host, server.port)


async def test_who_is_right_gets_no_hint(server):
    """An answer without errors names nobody."""
    client = await server.connect()
    answer = await client.request(_fetch(server, epoch=0), IDS_TOPICS, FetchResponse)
    assert _told(answer) == (ErrorCode.NONE, None, [])


async def test_a_producer_is_told_too(server, move):
    """From version 10 on."""
    client = await server.connect()
    await move()
    answer = await client.request(produce_request(TOPIC, batch(b"v")), 12, ProduceResponse)
    [row] = answer.responses[0].partition_responses
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (OTHER, 4)
    assert [(n.node_id, n.port) for n in answer.node_endpoints] == [(OTHER, 9999)]


async def test_the_hints_of_a_large_answer_are_made_in_pieces(server, move):
    """A request may name a partition that has moved 200,000 times."""
    await move()
    failed = [
        PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for _ in range(3 * PIECE)
    ]
    told = FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=failed)])
    work = Work(Turns(), lambda: False)
    client = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
    context = RequestContext(server.broker, client, IDS_TOPICS, None, work)
    hinted = [
        sum(one.current_leader is not None for one in failed) for _ in hint_consumer(told, context)
    ]
    assert hinted == [0, PIECE, 2 * PIECE]
    assert failed[-1].current_leader.leader_id == OTHER
