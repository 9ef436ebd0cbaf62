"""SyncGroup: a member asks for its assignment; the leader sends the assignments of all members.

Behavior: from version 5 on, the request has to name the protocol's type and name (KIP-559).
"""

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.replies import answer
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.handlers.lib.slices import PIECE, give_way, pieces
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.runtime import Reply

NAMES_SINCE = 5


RIGHTS = (once(READ, of=GROUP),)


async def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    """Answer when the leader has sent the assignment."""
    reply = Reply()
    try:
        if context.api_version >= NAMES_SINCE and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        home = context.broker.groups.coordinator(request.group_id)
        if len(request.assignments) > PIECE:
            await _leave_out_strangers(request, home.coordinator, context)
        home.carry_out(
            home.coordinator.members.sync(request, reply, context.broker.groups.now_ms())
        )
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    response = await answer(reply, context)
    assert isinstance(response, SyncGroupResponse)
    return response


async def _leave_out_strangers(
    request: SyncGroupRequest, groups: GroupCoordinator, context: RequestContext
) -> None:
    """Drop the assignments of clients that aren't members, because nothing reads them."""
    known = []
    for piece in pieces(request.assignments):
        await give_way(context.work)
        group = groups.groups.get(request.group_id)
        members = group.members if isinstance(group, ClassicGroup) else ()
        known += [one for one in piece if one.member_id in members]
    context.work.doomed.append(request.assignments)
    request.assignments = known
