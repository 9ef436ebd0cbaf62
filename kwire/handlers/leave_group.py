"""LeaveGroup: members leave a classic group, several at once from version 3 on (KIP-345)."""

from kwire.broker.groups import LoadedCoordinator
from kwire.errors import KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCHED_SINCE = 3


async def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Let every member go, each with an answer of its own."""
    try:
        home = context.broker.groups.coordinator(request.group_id)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    now_ms = context.broker.now_ms()
    if context.api_version < BATCHED_SINCE:
        only = _leave(home, request.group_id, MemberIdentity(member_id=request.member_id), now_ms)
        return LeaveGroupResponse(error_code=only.error_code)
    members = [_leave(home, request.group_id, member, now_ms) for member in request.members]
    return LeaveGroupResponse(members=members)


def _leave(
    home: LoadedCoordinator, group_id: str, member: MemberIdentity, now_ms: int
) -> MemberResponse:
    response = MemberResponse(
        member_id=member.member_id, group_instance_id=member.group_instance_id
    )
    try:
        home.carry_out(home.groups.leave(group_id, member, now_ms))
    except KafkaError as error:
        response.error_code = error.code
    return response
