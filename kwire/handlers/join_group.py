"""JoinGroup: a member joins a classic group, and waits for the others. See ``classic_protocol``."""

from kwire.coordinator.joining import Client, join_error
from kwire.errors import KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.runtime import Reply


async def handle(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    """Answer when the rebalance is complete."""
    client = Client(context.client_id or "", context.client_host, context.api_version)
    reply = Reply()
    try:
        home = context.broker.groups.coordinator(request.group_id)
        now_ms = context.broker.now_ms()
        home.carry_out(home.groups.join(request, client, reply, now_ms))
    except KafkaError as error:
        return join_error(error, request, context.api_version)
    response = await reply.wait()
    assert isinstance(response, JoinGroupResponse)
    return response
