"""Topics, records and groups for the tests of the page, made over Kafka's protocol."""

from collections.abc import Sequence

from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.record.records import BatchBuilder, Headers
from tests.support.in_process import RawClient, RunningServer

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>'\""
"""What a hostile client calls itself; no page may hold it as it is."""

Item = tuple[bytes | None, bytes | None, Headers]


async def create(client: RawClient, name: str, partitions: int = 1) -> None:
    """Create a topic."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = await client.request(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
    assert answer.topics[0].error_code == 0


async def produce(
    client: RawClient,
    topic: str,
    items: Sequence[Item],
    compression: int = 0,
    timestamp: int = 1_700_000_000_000,
) -> None:
    """Write a batch; each record is a millisecond later than the one before."""
    builder = BatchBuilder()
    for number, (key, value, headers) in enumerate(items):
        builder.add(timestamp + number, key, value, headers)
    data = PartitionProduceData(index=0, records=bytes(builder.build(compression=compression)))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = await client.request(request, 11, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def find_group(client: RawClient, group_id: str) -> None:
    """Have the broker load the coordinator of a group."""
    while True:
        request = FindCoordinatorRequest(coordinator_keys=[group_id])
        answer = await client.request(request, 4, FindCoordinatorResponse)
        if not answer.coordinators[0].error_code:
            return


async def commit(client: RawClient, group_id: str, topic: str, offset: int) -> None:
    """Commit an offset of a topic's first partition, as a client that is no member."""
    await find_group(client, group_id)
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=MARKUP
    )
    request = OffsetCommitRequest(
        group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    while True:
        answer = await client.request(request, 8, OffsetCommitResponse)
        if not answer.topics[0].partitions[0].error_code:
            return


async def join(running: RunningServer, group_id: str, client_id: str) -> RawClient:
    """Join a group as its only member; returns the member's connection."""
    raw = await running.connect()
    await find_group(raw, group_id)
    member = RawClient(raw.stream, client_id)
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )
    while True:
        answer = await member.request(request, 3, JoinGroupResponse)
        if not answer.error_code:
            return member
