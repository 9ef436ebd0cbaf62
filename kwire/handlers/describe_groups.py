"""DescribeGroups: members, states and assignments of classic groups.

Behavior: an unknown group is Dead, without an error; from version 6 on it is GROUP_ID_NOT_FOUND.
Subscriptions are shown once the group is stable. A group that is named twice has the same
description twice.
"""

from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group import EMPTY_STATE
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import GROUP_OPERATIONS, NOT_ASKED, RequestContext
from kwire.handlers.lib.rights import DESCRIBE, GROUP, each, operations
from kwire.handlers.lib.slices import give_way
from kwire.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_SINCE = 6

BYTES = 50
"""The bytes that each part of a response has without its strings."""


RIGHTS = (
    each("groups", DESCRIBE, GROUP, is_first=True),
    operations("groups", GROUP, named="group_id", told="authorized_operations"),
)


async def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """Describe every group that the request names."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    work = context.work
    described: dict[str, DescribedGroup] = {}
    groups = []
    for group_id in request.groups:
        await give_way(work)
        group = described.get(group_id)
        if group is None:
            described[group_id] = group = _describe(group_id, context)
            if not group.error_code:
                group.authorized_operations = operations
        work.answer(_size_bytes(group))
        groups.append(group)
    return DescribeGroupsResponse(groups=groups)


def _size_bytes(group: DescribedGroup) -> int:
    """The approximate size of a group in the response."""
    return BYTES + sum(
        BYTES + len(member.member_metadata) + len(member.member_assignment)
        for member in group.members
    )


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        home = context.broker.groups.coordinator_or_empty(group_id)
    except KafkaError as error:
        return DescribedGroup(error_code=error.code, group_id=group_id)
    group = home.coordinator.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return _classic(group)
    if group is None and home.coordinator.state_of(group_id) is not None:
        return DescribedGroup(group_id=group_id, group_state=EMPTY_STATE)
    described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if context.api_version >= NOT_FOUND_SINCE:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        what = "not found" if group is None else "is not a classic group"
        described.error_message = f"Group {group_id} {what}."
    return described


def _classic(group: ClassicGroup) -> DescribedGroup:
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
