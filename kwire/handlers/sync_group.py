"""SyncGroup: a member asks for its assignment; the leader brings it for everybody.

Behaviour: from version 5 on the protocol's type and name have to be given (KIP-559).
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.runtime import Reply

NAMES_SINCE = 5


async def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    """Answer when the leader has decided."""
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
    response = await reply.wait()
    assert isinstance(response, SyncGroupResponse)
    return response
