"""Clients create, move, elect and describe replicas as with Kafka."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import BrokerChanged, BrokerRegistered, PartitionsChanged
from kwire.metadata.image import BrokerImage
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kwire.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.support.sieve import refuse_commits

OTHERS = (2, 3)
ENDPOINTS = (("PLAINTEXT", "127.0.0.1", 1),)


class Admin:
    """An admin client of a cluster of three brokers, of which one runs."""

    def __init__(self, server, client):
        self.broker = server.broker
        self.client = client

    async def ask(self, request, version, answer):
        return await self.client.request(request, version, answer)

    async def alter(self, index, replicas, version=1, **fields):
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        topic = ReassignableTopic(name="t", partitions=[partition])
        request = AlterPartitionReassignmentsRequest(topics=[topic], **fields)
        answer = await self.ask(request, version, AlterPartitionReassignmentsResponse)
        assert not answer.error_code
        [told] = answer.responses
        [result] = told.partitions
        assert (told.name, result.partition_index) == ("t", index)
        return result.error_code

    async def moves(self, topics=None):
        request = ListPartitionReassignmentsRequest(topics=topics)
        answer = await self.ask(request, 0, ListPartitionReassignmentsResponse)
        return [
            (
                topic.name,
                one.partition_index,
                one.replicas,
                one.adding_replicas,
                one.removing_replicas,
            )
            for topic in answer.topics
            for one in topic.partitions
        ]

    async def elect(self, kind):
        wanted = [TopicPartitions(topic="t", partitions=[0])]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted)
        answer = await self.ask(request, 2, ElectLeadersResponse)
        return answer.replica_election_results[0].partition_result[0].error_code

    async def change(self, **fields):
        topic = self.broker.image.topics_by_name["t"]
        row = topic.partitions[0]._replace(**fields)
        await self.broker.commit(lambda image: [PartitionsChanged(topic.topic_id, ((0, row),))])

    @property
    def row(self):
        return self.broker.image.topics_by_name["t"].partitions[0]


@pytest.fixture
async def admin(server):
    """The topic ``t`` has one partition with three replicas, led by broker 1."""
    others = [BrokerRegistered(BrokerImage(node, None, ENDPOINTS, "x", epoch=1)) for node in OTHERS]
    await server.broker.commit(lambda image: others)
    client = await server.connect()
    await client.topic("t", replicas=3)
    admin = Admin(server, client)
    await admin.change(leader=1, replicas=(1, 2, 3), isr=(1, 2, 3))
    yield admin
    await client.aclose()


async def test_a_move_is_listed_until_it_is_cancelled(admin):
    """By name, by partition, or among all."""
    assert await admin.alter(0, [1, 2]) == 0
    assert await admin.moves() == []
    await admin.change(isr=(1,))
    assert await admin.alter(0, [1, 3]) == 0
    move = ("t", 0, [1, 3, 2], [3], [2])
    assert await admin.moves() == [move]
    wanted = ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])
    nowhere = ListPartitionReassignmentsTopics(name="nowhere", partition_indexes=[0])
    assert await admin.moves([wanted, nowhere]) == [move]
    assert await admin.alter(0, None) == 0
    assert admin.row.replicas == (1, 2)
    assert await admin.alter(0, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("version", [0, 1])
async def test_a_move_that_cannot_be_is_refused(admin, version):
    """Each partition has its own error."""
    assert await admin.alter(7, [1], version) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await admin.alter(0, [1, 9], version) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await admin.alter(0, [1] * 1001, version) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def test_the_replication_factor_can_be_kept(admin):
    code = await admin.alter(0, [1, 2], allow_replication_factor_change=False)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR


async def test_leaders_are_elected(admin):
    """The preferred one if it is in sync; any of them where nobody leads."""
    preferred, unclean = 0, 1
    assert await admin.elect(preferred) == ErrorCode.ELECTION_NOT_NEEDED
    await admin.change(leader=2, isr=(2, 3))
    assert await admin.elect(preferred) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert await admin.elect(unclean) == ErrorCode.ELECTION_NOT_NEEDED
    await admin.change(isr=(1, 2, 3))
    assert await admin.elect(preferred) == 0
    assert admin.row.leader == 1
    await admin.change(leader=-1, isr=())
    assert await admin.elect(unclean) == 0
    assert (admin.row.leader, admin.row.isr, admin.row.is_recovering) == (1, (1,), True)


async def test_replicas_are_described(admin):
    """In sync, offline, eligible, and the last leader that is known."""
    await admin.broker.commit(lambda image: [BrokerChanged(3, True, False)])
    await admin.change(leader=-1, isr=(), elr=(3,), last_known_elr=(2,))
    topics = [MetadataRequestTopic(name="t")]
    metadata = await admin.ask(MetadataRequest(topics=topics), 12, MetadataResponse)
    [one] = metadata.topics[0].partitions
    assert one.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (one.leader_id, one.replica_nodes, one.isr_nodes) == (-1, [1, 2, 3], [])
    assert one.offline_replicas == [3]
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    [one] = (await admin.ask(request, 0, DescribeTopicPartitionsResponse)).topics[0].partitions
    assert (one.isr_nodes, one.offline_replicas) == ([], [3])
    assert (one.eligible_leader_replicas, one.last_known_elr) == ([3], [2])


async def test_a_broker_leaves_when_it_is_stopped(admin):
    """Replicas that it had wait for another one with its id."""

    async def leave(node_id):
        request = UnregisterBrokerRequest(broker_id=node_id)
        return (await admin.ask(request, 0, UnregisterBrokerResponse)).error_code

    assert await leave(9) == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert await leave(3) == ErrorCode.INVALID_REQUEST
    await admin.broker.commit(lambda image: [BrokerChanged(3, True, False)])
    assert await leave(3) == 0
    assert set(admin.broker.image.brokers) == {1, 2}
    assert (admin.row.isr, admin.row.replicas) == ((1, 2), (1, 2, 3))
    assert admin.broker.offline_replicas(admin.broker.image.topics_by_name["t"], 0) == [3]
    back = BrokerImage(3, None, ENDPOINTS, "y", epoch=2)
    await admin.broker.commit(lambda image: [BrokerRegistered(back)])
    assert admin.broker.offline_replicas(admin.broker.image.topics_by_name["t"], 0) == []


async def test_a_move_that_is_not_committed_is_every_partitions_error(admin):
    """Java's Admin looks for the error of the request at each partition, and fails without it."""
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space")
    refuse_commits(admin.broker.commits.store, full)
    partitions = [
        ReassignablePartition(partition_index=index, replicas=[3, 2, 1]) for index in (0, 7)
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=partitions)],
        allow_replication_factor_change=False,
    )
    answer = await admin.ask(request, 1, AlterPartitionReassignmentsResponse)
    assert (answer.error_code, answer.error_message) == (full.code, "no space")
    assert not answer.allow_replication_factor_change
    [told] = answer.responses
    assert [(one.partition_index, one.error_code) for one in told.partitions] == [
        (0, full.code),
        (7, full.code),
    ]
