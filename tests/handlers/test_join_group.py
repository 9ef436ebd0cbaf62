"""JoinGroup and SyncGroup over a socket."""

import pytest
import trio

from kwire.errors import ErrorCode
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tests.support.in_process import RawClient


async def test_a_member_joins_and_syncs(member):
    """An id first, then the generation, then the assignment."""
    first = await member.join()
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = await member.join()
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, member.member_id)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [m.metadata for m in joined.members] == [b"topics"]
    synced = await member.sync(**{member.member_id: b"everything"})
    assert (synced.error_code, synced.assignment) == (0, b"everything")
    assert member.member_id.startswith("raw-")


async def test_every_version(new_member):
    """Dynamic members join in every version; names are null from 7 on, empty before."""
    for version in range(10):
        member = await new_member(f"group-{version}")
        refused = await member.join(version, session_timeout_ms=1)
        assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert refused.protocol_name == (None if version >= 7 else "")
        member.member_id = ""
        if version >= 4:
            assert (await member.join(version)).error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = await member.join(version)
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
        synced = await member.sync(min(version, 5), **{member.member_id: b"x"})
        assert synced.assignment == b"x"


async def test_two_members_wait_for_each_other(new_member):
    """The second member's join waits until the first has joined again."""
    first, second = await new_member(), await new_member()
    await first.become_stable()
    await second.join()
    answers = {}

    async def join_and_sync(name, member, **assignments):
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"other topics")]
        answers[name] = await member.join(protocols=protocols)
        answers[f"{name} sync"] = await member.sync(**assignments)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join_and_sync, "second", second)
        assignments = {first.member_id: b"p0", second.member_id: b"p1"}
        nursery.start_soon(lambda: join_and_sync("first", first, **assignments))
    assert answers["first"].generation_id == answers["second"].generation_id
    assert answers["second"].leader == first.member_id
    assert answers["first sync"].assignment == b"p0"
    assert answers["second sync"].assignment == b"p1"


async def test_a_group_without_a_name_is_refused(member):
    """INVALID_GROUP_ID, as in Kafka; offsets alone may be committed for it."""
    assert (await member.join(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID


async def test_sync_wants_the_names_of_the_protocol(member):
    """From version 5 on they are mandatory (KIP-559)."""
    from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

    await member.become_stable()
    request = SyncGroupRequest(
        group_id="billing", generation_id=member.generation, member_id=member.member_id
    )
    response = await member.client.request(request, 5, SyncGroupResponse)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    response = await member.client.request(request, 4, SyncGroupResponse)
    assert (response.error_code, response.assignment) == (0, b"everything")


async def test_members_that_wait_are_told_when_the_broker_stops(server, new_member):
    """NOT_COORDINATOR at once, so that a stop doesn't wait for a rebalance."""
    first, second = await new_member(), await new_member()
    await first.become_stable()
    await second.join()
    answers = []

    async def wait() -> None:
        answers.append(await second.join())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        group = server.broker.groups.coordinator("billing").coordinator.groups["billing"]
        while second.member_id not in group.members:
            await trio.lowlevel.checkpoint()
        server.server.stop()
    assert [a.error_code for a in answers] == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("beyond", [0, 1])
async def test_the_longest_id_of_a_member(server, beyond):
    """It begins with the client's id, and is told as a string."""
    uuid_length = 36
    client = RawClient((await server.connect()).stream, "c" * (0x7FFF - 1 - uuid_length + beyond))
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = await client.request(request, 4, JoinGroupResponse)
    if beyond:
        assert answer.error_code == ErrorCode.INVALID_REQUEST
    else:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert len(answer.member_id) == 0x7FFF
