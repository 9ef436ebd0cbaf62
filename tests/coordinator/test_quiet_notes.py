"""What a program that runs for a moment leaves in the log: one line."""

import logging
from pathlib import Path

import pytest
import trio

from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.in_process import RawClient, running_server


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says about groups at level INFO."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.INFO and record.getMessage().startswith("group ")
    ]


async def join(client: RawClient, member_id: str = "") -> JoinGroupResponse:
    """Join with the classic protocol."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return await client.request(request, 3, JoinGroupResponse)


async def leave(client: RawClient, member_id: str) -> None:
    """Leave."""
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    assert (await client.request(request, 4, LeaveGroupResponse)).error_code == 0


async def test_a_classic_consumer_that_runs_for_a_moment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its line names the member; the history of the group has every event."""
    caplog.set_level(logging.INFO)
    async with running_server(tmp_path) as running:
        await running.broker.groups.ensure_topic()
        client = await running.connect()
        joined = await join(client)
        assert joined.error_code == 0
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert (await client.request(sync, 3, SyncGroupResponse)).error_code == 0
        await leave(client, joined.member_id)
        [line] = lines(caplog)
        assert line.startswith(f"group g: generation 1 has 1 member, {joined.member_id}")
        home = running.broker.groups.coordinator("g")
        assert len(home.coordinator.history.events_of("g")) == 5
        await client.aclose()


async def test_a_group_of_several_says_why_it_rebalances(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The second member that joins, and the one that leaves the other alone."""
    caplog.set_level(logging.INFO)
    async with running_server(tmp_path) as running:
        await running.broker.groups.ensure_topic()
        one, two = await running.connect(), await running.connect()
        first = (await join(one)).member_id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(join, two)
            while not any("joins" in line for line in lines(caplog)):
                await trio.lowlevel.checkpoint()
            await join(one, first)
        await leave(one, first)
        assert any(f"{first} " in line and "left" in line for line in lines(caplog))
        await one.aclose()
        await two.aclose()


async def test_a_consumer_of_the_new_protocol_that_runs_for_a_moment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line as well."""
    caplog.set_level(logging.INFO)
    async with running_server(tmp_path) as running:
        await running.broker.groups.ensure_topic()
        client = await running.connect()
        for epoch in (0, -1):
            request = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="me",
                member_epoch=epoch,
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            answer = await client.request(request, 1, ConsumerGroupHeartbeatResponse)
            assert answer.error_code == 0, answer.error_message
        assert len(lines(caplog)) <= 1
        await client.aclose()
