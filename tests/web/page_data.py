"""Topics, records and groups for the tests of the page, made over Kafka's protocol."""

from collections.abc import Sequence

from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.record.records import BatchBuilder, Headers
from tests.support.in_process import RawClient, RunningServer

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>'\""
"""What a hostile client calls itself; no page may hold it as it is."""

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
