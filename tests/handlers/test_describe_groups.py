"""ListGroups, DescribeGroups and DeleteGroups over a socket."""

from kwire.errors import ErrorCode
from kwire.handlers.lib.context import GROUP_OPERATIONS, NOT_ASKED
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def _list(member, version, **filters):
    response = await member.client.request(
        ListGroupsRequest(**filters), version, ListGroupsResponse
    )
    assert response.error_code == ErrorCode.NONE
    return {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in response.groups}


async def _describe(member, group_id, version, **fields):
    request = DescribeGroupsRequest(groups=[group_id], **fields)
    [group] = (await member.client.request(request, version, DescribeGroupsResponse)).groups
    return group


async def _delete(member, *group_ids):
    request = DeleteGroupsRequest(groups_names=list(group_ids))
    response = await member.client.request(request, 2, DeleteGroupsResponse)
    return {r.group_id: ErrorCode(r.error_code) for r in response.results}


async def test_groups_are_listed(member):
    """The state from version 4 on, the type from 5 on."""
    for version in range(6):
        assert await _list(member, version) == {}
    await member.become_stable()
    for version in range(6):
        state = "Stable" if version >= 4 else ""
        kind = "classic" if version >= 5 else ""
        assert await _list(member, version) == {"billing": ("consumer", state, kind)}


async def test_groups_are_filtered(member):
    """By state and by type, whatever their case."""
    await member.become_stable()
    assert set(await _list(member, 5, states_filter=["stable", "Dead"])) == {"billing"}
    assert set(await _list(member, 5, states_filter=["Empty"])) == set()
    assert set(await _list(member, 5, types_filter=["Classic"])) == {"billing"}
    assert set(await _list(member, 5, types_filter=["consumer"])) == set()


async def test_a_group_is_described(member):
    """State, protocol, members and what they have."""
    await member.become_stable(b"mine")
    for version in range(7):
        group = await _describe(member, "billing", version)
        assert (group.error_code, group.group_state) == (0, "Stable")
        assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
        [described] = group.members
        assert (described.member_id, described.client_id) == (member.member_id, "raw")
        assert described.client_host == "/127.0.0.1"
        assert (described.member_metadata, described.member_assignment) == (b"topics", b"mine")
        assert group.authorized_operations == NOT_ASKED


async def test_authorized_operations_are_told_who_asks(member):
    """From version 3 on."""
    await member.become_stable()
    group = await _describe(member, "billing", 3, include_authorized_operations=True)
    assert group.authorized_operations == GROUP_OPERATIONS


async def test_a_group_nobody_knows_is_dead(member):
    """Without an error before version 6, GROUP_ID_NOT_FOUND from then on (KIP-1043)."""
    group = await _describe(member, "nobody", 5, include_authorized_operations=True)
    assert (group.error_code, group.group_state) == (0, "Dead")
    group = await _describe(member, "nobody", 6, include_authorized_operations=True)
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert group.error_message == "Group nobody not found."
    assert group.authorized_operations == NOT_ASKED


async def test_groups_are_deleted(member):
    """An empty one; one with members is not, and one that isn't there says so."""
    await member.become_stable()
    assert await _delete(member, "billing", "nobody", "billing") == {
        "billing": ErrorCode.NON_EMPTY_GROUP,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    leaving = [MemberIdentity(member_id=member.member_id)]
    request = LeaveGroupRequest(group_id="billing", members=leaving)
    await member.client.request(request, 5, LeaveGroupResponse)
    group = await _describe(member, "billing", 6)
    assert (group.group_state, group.members, group.protocol_type) == ("Empty", [], "consumer")
    assert await _delete(member, "billing") == {"billing": ErrorCode.NONE}
    assert await _list(member, 5) == {}
