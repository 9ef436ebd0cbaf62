"""LeaveGroup and Heartbeat over a socket."""

from kwire.errors import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)


async def test_a_member_leaves(member):
    """Up to version 2 there is one member and one error, then a list."""
    for version in range(6):
        member.member_id = ""
        await member.become_stable()
        for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            if version < 3:
                request = LeaveGroupRequest(group_id="billing", member_id=member.member_id)
                response = await member.client.request(request, version, LeaveGroupResponse)
                assert response.error_code == expected
            else:
                leaving = [MemberIdentity(member_id=member.member_id)]
                request = LeaveGroupRequest(group_id="billing", members=leaving)
                response = await member.client.request(request, version, LeaveGroupResponse)
                assert response.error_code == ErrorCode.NONE
                [answer] = response.members
                assert (answer.member_id, answer.error_code) == (member.member_id, expected)


async def test_leaving_a_group_nobody_knows(member):
    """Each member is unknown; a group without a name is refused as a whole."""
    leaving = [MemberIdentity(member_id="a"), MemberIdentity(member_id="b")]
    request = LeaveGroupRequest(group_id="nobody", members=leaving)
    response = await member.client.request(request, 5, LeaveGroupResponse)
    assert [m.error_code for m in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    request = LeaveGroupRequest(group_id="", members=leaving)
    response = await member.client.request(request, 5, LeaveGroupResponse)
    assert response.error_code == ErrorCode.INVALID_GROUP_ID


async def test_heartbeats(member):
    """A member of the generation is fine, any other is told what is wrong."""
    await member.become_stable()

    async def beat(version, **fields):
        values = {"group_id": "billing", "member_id": member.member_id, "generation_id": 1}
        request = HeartbeatRequest(**(values | fields))
        response = await member.client.request(request, version, HeartbeatResponse)
        return response.error_code

    for version in range(5):
        assert await beat(version) == ErrorCode.NONE
        assert await beat(version, generation_id=2) == ErrorCode.ILLEGAL_GENERATION
        assert await beat(version, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await beat(version, group_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await beat(version, group_id="") == ErrorCode.INVALID_GROUP_ID


async def test_a_clock_that_jumps_ends_no_session(server, member):
    """Sessions go by a clock of their own, which nobody sets."""
    await member.become_stable()
    wall_clock_ms = server.broker.now_ms
    server.broker.now_ms = lambda: wall_clock_ms() + 86_400_000
    group = server.broker.groups.coordinator("billing")
    group.runtime.tick(server.broker.groups.now_ms())
    request = HeartbeatRequest(group_id="billing", member_id=member.member_id, generation_id=1)
    response = await member.client.request(request, 4, HeartbeatResponse)
    assert response.error_code == ErrorCode.NONE
