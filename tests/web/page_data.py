"""Topics, records and groups for the tests of the page, made over Kafka's protocol."""

from collections.abc import Sequence

from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kwire.record.records import BatchBuilder, Headers
from tests.support.in_process import RawClient, RunningServer

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>'\""
"""What a hostile client calls itself; no page may hold it as it is."""

Assigned = Sequence[tuple[str, Sequence[int]]]
"""Partitions by topic."""

Item = tuple[bytes | None, bytes | None, Headers]


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
    await client.produce_batch(topic, bytes(builder.build(compression=compression)))


async def find_group(client: RawClient, group_id: str) -> None:
    """Have the broker load the coordinator of a group."""
    while True:
        request = FindCoordinatorRequest(coordinator_keys=[group_id])
        answer = await client.request(request, 4, FindCoordinatorResponse)
        if not answer.coordinators[0].error_code:
            return


async def join(
    running: RunningServer, group_id: str, client_id: str, assigned: Assigned = ()
) -> RawClient:
    """Join a group as its only member, which takes partitions; returns the member's connection."""
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
            break
    if assigned:
        topics = [TopicPartition(topic=name, partitions=list(which)) for name, which in assigned]
        assignment = ConsumerProtocolAssignment(assigned_partitions=topics)
        syncing = SyncGroupRequest(
            group_id=group_id,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=answer.member_id,
                    assignment=bytes(2) + encode(assignment, 0),
                )
            ],
        )
        assert not (await member.request(syncing, 3, SyncGroupResponse)).error_code
    return member
