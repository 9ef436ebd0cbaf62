"""Everything that a client can make: each function makes it, uses it and removes it again.

``n`` is in every name, so that what is kept by name shows as growth. Nothing here waits for time
to pass: what only time removes, such as transactional ids, is gone after the days between cycles.
"""

from kwire.errors import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.record.records import ProducerState
from tests.performance.answers import error_codes
from tests.performance.desk import answer_class
from tests.support.raw_producer import RawProducer

LASTING = "lasting"
"""The topic that is there all the time."""

PARTITIONS = 4
PRODUCERS = 8
MEMBER_EPOCH_LEAVES, MEMBER_EPOCH_LEAVES_FOR_NOW = -1, -2
TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE = 0, 1


async def ask_anyhow(client, request, version):
    """The answer to a request, whatever it says."""
    return await client.request(request, version, answer_class(request.API_KEY))


async def ask(client, request, version, *allowed):
    """The answer to a request, which has no error but those that are allowed."""
    answer = await ask_anyhow(client, request, version)
    unexpected = set(error_codes(answer)) - {0, *allowed}
    assert not unexpected, f"{type(answer).__name__} has error codes {unexpected}"
    return answer


async def produce(client, topic, index, producer_id, sequence=0):
    """One record of an idempotent producer."""
    producer = ProducerState(producer_id, 0, sequence)
    await client.produce(topic, bytes(100), key=b"key", partition=index, producer=producer)


async def producers(client, topic):
    """Many producers, each with an id of its own."""
    for number in range(PRODUCERS):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        producer_id = (await ask(client, request, 4)).producer_id
        await produce(client, topic, number % PARTITIONS, producer_id)


async def fetch_session(client, topic):
    """A fetch session that its client never ends, with partitions of which one isn't there."""
    wanted = [FetchPartition(partition=n, partition_max_bytes=1000) for n in range(PARTITIONS + 1)]
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic=topic, partitions=wanted)])
    request.session_epoch = 0
    found = await ask(client, request, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert found.session_id
    request = FetchRequest(max_wait_ms=0, session_id=found.session_id, session_epoch=1)
    await ask(client, request, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def topics(client, n):
    """A topic with configs, records, producers, a session, more partitions; it is deleted."""
    name = f"topic-{n}"
    await client.topic(name, PARTITIONS, retention_ms=1_000_000)
    await producers(client, name)
    await fetch_session(client, name)
    more = CreatePartitionsTopic(name=name, count=PARTITIONS + 2, assignments=None)
    await ask(client, CreatePartitionsRequest(topics=[more], timeout_ms=1000), 3)
    before = [DeleteRecordsPartition(partition_index=0, offset=1)]
    doomed = [DeleteRecordsTopic(name=name, partitions=before)]
    await ask(client, DeleteRecordsRequest(topics=doomed, timeout_ms=1000), 2)
    await client.delete_topic(name)


async def lasting_topic(client, n):
    """Producers of a topic that stays."""
    await producers(client, LASTING)
    await produce(client, LASTING, 0, 10**9 + n)


async def commit(client, group, member="", generation=-1):
    """A committed offset of a partition."""
    partition = OffsetCommitRequestPartition(
        partition_index=1, committed_offset=5, committed_metadata="here"
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=LASTING, partitions=[partition])],
    )
    await ask(client, request, 9)


def join_request(group, member, instance):
    """JoinGroup of a member that can lead."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=protocols,
    )


async def classic_group(client, group, instance):
    """A classic group with one member, which comes, commits and goes."""
    await ask(client, FindCoordinatorRequest(coordinator_keys=[group]), 4)
    joined = await ask(client, join_request(group, "", instance), 7, ErrorCode.MEMBER_ID_REQUIRED)
    member = joined.member_id
    if joined.error_code:
        joined = await ask(client, join_request(group, member, instance), 7)
    shares = [SyncGroupRequestAssignment(member_id=member, assignment=b"all")]
    generation = joined.generation_id
    identity = {"group_id": group, "generation_id": generation, "member_id": member}
    await ask(client, SyncGroupRequest(**identity, assignments=shares), 4)
    await ask(client, HeartbeatRequest(**identity), 4)
    await commit(client, group, member, generation)
    leaver = MemberIdentity(member_id=member, group_instance_id=instance)
    await ask(client, LeaveGroupRequest(group_id=group, members=[leaver]), 4)


async def classic_groups(client, n):
    """Classic groups: with a member, with a static one, one that never has joined for good."""
    group = f"classic-{n}"
    await classic_group(client, group, None)
    await classic_group(client, group, f"instance-{n}")
    alone = f"alone-{n}"
    await ask(client, join_request(alone, "", None), 7, ErrorCode.MEMBER_ID_REQUIRED)
    await ask(client, DeleteGroupsRequest(groups_names=[group]), 2)


async def consumer_groups(client, n):
    """Groups of KIP-848: a member by a regular expression, a static one that may come back."""
    group = f"consumer-{n}"
    await ask(client, FindCoordinatorRequest(coordinator_keys=[group]), 4)
    for member, fields, leaves in (
        (f"m-{n}", {"subscribed_topic_regex": f"last.*|none-{n}"}, MEMBER_EPOCH_LEAVES),
        (f"s-{n}", {"instance_id": f"i-{n}"}, MEMBER_EPOCH_LEAVES_FOR_NOW),
    ):
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=[LASTING],
            topic_partitions=[],
            **fields,
        )
        joined = await ask(client, request, 1)
        await commit(client, group, member, joined.member_epoch)
        identity = {"group_id": group, "member_id": member, "member_epoch": leaves}
        instance = fields.get("instance_id")
        await ask(client, ConsumerGroupHeartbeatRequest(**identity, instance_id=instance), 1)
    await ask(client, DeleteGroupsRequest(groups_names=[group]), 2, ErrorCode.NON_EMPTY_GROUP)


async def offsets(client, n):
    """A group that has nothing but offsets, which are deleted; one whose offsets run out."""
    await commit(client, f"offsets-{n}")
    await commit(client, f"expires-{n}")
    partitions = [OffsetDeleteRequestPartition(partition_index=1)]
    doomed = [OffsetDeleteRequestTopic(name=LASTING, partitions=partitions)]
    await ask(client, OffsetDeleteRequest(group_id=f"offsets-{n}", topics=doomed), 0)


async def transactions(client, n):
    """Transactional ids: one commits records and an offset, one aborts, one never ends."""
    group = f"transaction-{n}"
    for bumps, committed in ((True, True), (False, False)):
        producer = RawProducer(client, f"id-{n}-{bumps}", bumps=bumps)
        await producer.init()
        if not bumps:
            await producer.add(LASTING, 0)
            await producer.add_offsets(group)
        await producer.produce(LASTING, 0, b"value")
        await producer.commit_offset(group, LASTING, 0, 3)
        await producer.end(committed=committed)
    left_open = RawProducer(client, f"open-{n}")
    await left_open.init()
    await left_open.produce(LASTING, 1, b"value")


async def configs(client, n):
    """Dynamic configs of a group, a topic and the broker, which are set and taken back."""
    for kind, name, config, value in (
        (GROUP, f"group-{n}", "consumer.session.timeout.ms", "50000"),
        (TOPIC, LASTING, "retention.bytes", str(10**9 + n)),
        (BROKER, "", "message.max.bytes", str(10**6 + n)),
    ):
        for operation in (SET, DELETE):
            change = AlterableConfig(name=config, config_operation=operation, value=value)
            resource = AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=[change]
            )
            await ask(client, IncrementalAlterConfigsRequest(resources=[resource]), 1)


async def nothing(client, n):
    """Names that nobody knows."""
    name = f"nothing-{n}"
    missing = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    await ask(client, missing, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await ask(
        client, HeartbeatRequest(group_id=name, member_id=name), 4, ErrorCode.UNKNOWN_MEMBER_ID
    )
    await ask(client, DescribeGroupsRequest(groups=[name]), 5, ErrorCode.GROUP_ID_NOT_FOUND)
    await ask(client, DeleteGroupsRequest(groups_names=[name]), 2, ErrorCode.GROUP_ID_NOT_FOUND)
    await ask(client, FindCoordinatorRequest(coordinator_keys=[name]), 4)


ALL = (
    topics,
    lasting_topic,
    classic_groups,
    consumer_groups,
    offsets,
    transactions,
    configs,
    nothing,
)
