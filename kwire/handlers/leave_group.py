"""LeaveGroup: members leave a classic group, from version 3 on several at once (KIP-345).

If many members leave, they leave in pieces of ``PIECE``.
"""

from collections.abc import Sequence

from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.replies import answer
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.handlers.lib.slices import give_way, pieces
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kwire.runtime import Reply

BATCHED_SINCE = 3


RIGHTS = (once(READ, of=GROUP),)


async def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Remove every member; each has its own result."""
    is_batched = context.api_version >= BATCHED_SINCE
    leaving = request.members if is_batched else [MemberIdentity(member_id=request.member_id)]
    members: list[MemberResponse] = []
    for piece in pieces(leaving):
        await give_way(context.work)
        response = await _remove_members(request.group_id, piece, context)
        if response.error_code:
            return response
        members += response.members
    if not is_batched:
        [only] = members
        return LeaveGroupResponse(error_code=only.error_code)
    return LeaveGroupResponse(members=members)


async def _remove_members(
    group_id: str, leaving: Sequence[MemberIdentity], context: RequestContext
) -> LeaveGroupResponse:
    reply = Reply()
    try:
        home = context.broker.groups.coordinator(group_id)
        now_ms = context.broker.groups.now_ms()
        home.carry_out(home.coordinator.members.leave(group_id, list(leaving), reply, now_ms))
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    response = await answer(reply, context)
    assert isinstance(response, LeaveGroupResponse)
    return response
