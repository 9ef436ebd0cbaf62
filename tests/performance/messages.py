"""What the sequences ask for."""

from kwire.errors import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.record.records import NO_PRODUCER, BatchBuilder
from tests.performance.desk import NOW_MS, Message

TOPIC = "orders"
GROUP = "readers"
MEGABYTE = 1_000_000  # 1 << 20 with a header is more than max.message.bytes


def batch(records=1, record_bytes=100, producer=NO_PRODUCER, *, transactional=False):
    """One batch."""
    builder = BatchBuilder()
    for _ in range(records):
        builder.add(NOW_MS, b"key", bytes(record_bytes))
    return bytes(builder.build(producer=producer, transactional=transactional))


def produce(data, partitions=1, transaction=None):
    """A batch for each of some partitions."""
    wanted = [PartitionProduceData(index=n, records=data) for n in range(partitions)]
    topics = [TopicProduceData(name=TOPIC, partition_data=wanted)]
    request = ProduceRequest(
        transactional_id=transaction, acks=-1, timeout_ms=1000, topic_data=topics
    )
    return Message(request, 11)


def fetch(
    partitions=1, offset=0, isolation=0, session=(0, -1), max_bytes=1000, wait_ms=0, brings=1
):
    """What some partitions hold from an offset on; session is (id, epoch).

    So many of them bring records.
    """
    wanted = [
        FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=max_bytes)
        for n in range(partitions)
    ]
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        max_bytes=10 * MEGABYTE,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=TOPIC, partitions=wanted)] if wanted else [],
    )
    return Message(request, 12, brings=brings)


def join(member_id):
    """JoinGroup, as a member asks that wants to lead; one without an id is given one first."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")]
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
    )
    return Message(request, 7, error_code=0 if member_id else ErrorCode.MEMBER_ID_REQUIRED)


def sync(member_id, generation):
    """SyncGroup of a leader."""
    assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
    request = SyncGroupRequest(
        group_id=GROUP, generation_id=generation, member_id=member_id, assignments=assignments
    )
    return Message(request, 4)


def commit(member_id, generation, offset):
    """OffsetCommit of ten partitions."""
    wanted = [
        OffsetCommitRequestPartition(
            partition_index=n, committed_offset=offset, committed_metadata=""
        )
        for n in range(10)
    ]
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=wanted)],
    )
    return Message(request, 8)
