"""SyncGroup: a member asks for its assignment; the leader brings it for everybody."""

from kwire.errors import KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.runtime import Reply


async def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    """Answer when the leader has decided."""
    reply = Reply()
    try:
        home = context.broker.groups.coordinator(request.group_id)
        home.carry_out(home.groups.sync(request, reply, context.broker.now_ms()))
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    response = await reply.wait()
    assert isinstance(response, SyncGroupResponse)
    return response
