"""SyncGroup: a member asks for its assignment; the leader brings it for everybody.

Behaviour: from version 5 on the protocol's type and name have to be given (KIP-559).
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.replies import answer
from kwire.handlers.waiting import Unfinished, at_once_or_later
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.runtime import Reply

NAMES_SINCE = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse | Unfinished:
    """Answer when the leader has decided."""
    return at_once_or_later(_handle(request, context))


async def _handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    reply = Reply()
    try:
        if context.api_version >= NAMES_SINCE and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        home = context.broker.groups.coordinator(request.group_id)
        home.carry_out(home.groups.members.sync(request, reply, context.broker.groups.now_ms()))
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    response = await answer(reply, context)
    assert isinstance(response, SyncGroupResponse)
    return response
