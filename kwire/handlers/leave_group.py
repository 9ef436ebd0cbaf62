"""LeaveGroup: members leave a classic group, several at once from version 3 on (KIP-345)."""

from kwire.errors import KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.replies import answer
from kwire.handlers.waiting import Unfinished, at_once_or_later
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.runtime import Reply

BATCHED_SINCE = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse | Unfinished:
    """Let every member go, each with an answer of its own."""
    return at_once_or_later(_handle(request, context))


async def _handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    is_batched = context.api_version >= BATCHED_SINCE
    leaving = request.members if is_batched else [MemberIdentity(member_id=request.member_id)]
    reply = Reply()
    try:
        home = context.broker.groups.coordinator(request.group_id)
        now_ms = context.broker.groups.now_ms()
        home.carry_out(home.groups.members.leave(request.group_id, leaving, reply, now_ms))
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    response = await answer(reply, context)
    assert isinstance(response, LeaveGroupResponse)
    if not is_batched:
        [only] = response.members
        return LeaveGroupResponse(error_code=only.error_code)
    return response
