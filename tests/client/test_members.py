"""Members of groups against a broker: both protocols, rebalances, commits, leaving."""

from pathlib import Path

import pytest
import trio

from kwire.client.cluster import open_cluster
from kwire.client.group_offsets import commit_offsets, committed_offsets, delete_offsets
from kwire.client.groups import delete_groups, describe_group
from kwire.client.leaders import TopicPartition
from kwire.client.members import open_member
from kwire.client.topics import create_topics
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.in_process import running_server

SESSION_MS = 900
PARTITIONS = [TopicPartition("t", index) for index in range(4)]


@pytest.fixture(autouse=True)
def eager_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that waits for its first partitions asks again without long pauses."""
    monkeypatch.setattr("kwire.client.consumer_member.SOON_S", (0.005, 0.01, 0.02, 0.04))


@pytest.fixture
async def server(tmp_path: Path):
    """A broker whose groups settle quickly."""
    settings = {"group.consumer.heartbeat.interval.ms": "20"}
    settings["group.consumer.min.heartbeat.interval.ms"] = "20"
    settings["group.consumer.assignment.interval.ms"] = "0"
    settings["group.min.session.timeout.ms"] = "100"
    settings["offsets.topic.num.partitions"] = "1"
    async with running_server(tmp_path, settings) as found:
        yield found


@pytest.fixture
async def cluster(server):
    """A client of the broker, with topic t of four partitions."""
    async with open_cluster([(server.host, server.port)]) as found:
        await create_topics(found, ["t"], partitions=4)
        yield found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_two_members_share_the_partitions_and_the_last_gets_them_all(
    server, cluster, protocol
):
    """Nobody has a partition that another one has not given up."""
    async with open_member(
        cluster, "g", ["t"], protocol=protocol, session_timeout_ms=SESSION_MS
    ) as first:
        mine = await first.settle()
        assert mine == PARTITIONS
        joined, leave = trio.Event(), trio.Event()
        theirs = []

        async def join_too() -> None:
            async with (
                open_cluster([(server.host, server.port)]) as other,
                open_member(other, "g", ["t"], protocol=protocol) as second,
            ):
                theirs[:] = await second.settle()
                while not theirs:
                    await second.wait_moved()
                    theirs[:] = await second.settle()
                joined.set()
                await leave.wait()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join_too)
            await first.wait_moved()
            await first.commit(dict.fromkeys(mine, 7))
            mine = await first.settle()
            with trio.fail_after(30):
                await joined.wait()
            assert sorted([*mine, *theirs]) == PARTITIONS
            assert len(mine) == 2
            found = await describe_group(cluster, "g")
            assert (found.type, found.state, len(found.members)) == (protocol, "Stable", 2)
            assert sorted(one for m in found.members for one in m.partitions) == PARTITIONS
            leave.set()
        while len(mine) < 4:
            await first.wait_moved()
            mine = await first.settle()
    assert await committed_offsets(cluster, "g") == dict.fromkeys(PARTITIONS, 7)
    found = await describe_group(cluster, "g")
    assert (found.state, found.members) == ("Empty", []), "both have left"


async def remove_from_group(cluster, protocol, member_id):
    """Have a member leave without its knowledge, as an administrator may."""
    if protocol == "classic":
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
        answer = LeaveGroupResponse
    else:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=-1)
        answer = ConsumerGroupHeartbeatResponse
    left = await cluster.ask_coordinator("g", request, answer, lambda found: [found.error_code])
    assert left.error_code == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_of_a_group_that_is_gone_joins_again(cluster, protocol):
    """As a new one, when the group doesn't know it."""
    async with open_member(
        cluster, "g", ["t"], protocol=protocol, session_timeout_ms=SESSION_MS
    ) as member:
        await member.settle()
        (before,) = (await describe_group(cluster, "g")).members
        await remove_from_group(cluster, protocol, before.member_id)
        with trio.fail_after(30):
            mine = []
            while mine != PARTITIONS:
                await member.wait_moved()
                mine = await member.settle()
        (after,) = (await describe_group(cluster, "g")).members
    assert protocol == "consumer" or after.member_id != before.member_id


async def test_a_block_that_fails_leaves_the_group_too(cluster):
    """Its error comes out as it is."""

    async def fail() -> None:
        async with open_member(cluster, "g", ["t"]) as member:
            await member.settle()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert (await describe_group(cluster, "g")).members == []


async def test_offsets_of_a_group_without_members(cluster):
    """Committed, fetched, deleted; the group is listed, and gone after its deletion."""
    await commit_offsets(cluster, "g", {PARTITIONS[0]: 3, PARTITIONS[1]: 4})
    assert await committed_offsets(cluster, "g", PARTITIONS) == {PARTITIONS[0]: 3, PARTITIONS[1]: 4}
    assert await delete_offsets(cluster, "g", [PARTITIONS[0]]) == {PARTITIONS[0]: None}
    assert await committed_offsets(cluster, "g") == {PARTITIONS[1]: 4}
    listed = await cluster.ask(ListGroupsRequest(), ListGroupsResponse)
    assert [group.group_id for group in listed.groups] == ["g"]
    assert await delete_groups(cluster, ["g"]) == {"g": None}
    with pytest.raises(KafkaError) as caught:
        await describe_group(cluster, "g")
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_commit_of_another_generation_is_refused(cluster):
    """A group with members takes no offsets from others."""
    async with open_member(cluster, "g", ["t"]) as member:
        await member.settle()
        with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
            await commit_offsets(cluster, "g", {PARTITIONS[0]: 3})
