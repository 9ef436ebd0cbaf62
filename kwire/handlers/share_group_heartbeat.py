"""ShareGroupHeartbeat: a member of a share group joins, stays, or leaves (KIP-932).

Behavior: the answer comes at once. It says when the member has to send its next heartbeat: soon
while the group is unsettled. A member that joins gets partitions once they have share states.
"""

from typing import TYPE_CHECKING, Any

from kwire.coordinator.joining import Client
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.member_size import check_member_size
from kwire.handlers.lib.replies import answer
from kwire.handlers.lib.rights import DESCRIBE, FAILED, GROUP, READ, TOPIC, Serve, once, right
from kwire.handlers.lib.share_groups import check_share_protocol
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.runtime import Reply

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization


async def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    """Take the member one step further."""
    client = Client(context.client_id or "", context.client_host, context.api_version)
    reply = Reply()
    try:
        check_share_protocol(context.broker)
        if names := request.subscribed_topic_names:
            await check_member_size(names, len, context)
        home = context.broker.groups.coordinator_or_empty(request.group_id)
        now_ms = context.broker.groups.now_ms()
        home.carry_out(home.groups.share.heartbeat(request, client, reply, now_ms))
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )
    response = await answer(reply, context)
    assert isinstance(response, ShareGroupHeartbeatResponse)
    return response


@right("DESCRIBE on every topic that the member subscribes to")
async def _describe_topics(
    request: ShareGroupHeartbeatRequest, rights: "Authorization", serve: Serve
) -> Any:
    names = set(request.subscribed_topic_names or ())
    if names - await rights.allowed_names(DESCRIBE, TOPIC, names):
        return ShareGroupHeartbeatResponse(error_code=FAILED[TOPIC])
    return await serve(request)


RIGHTS = (once(READ, of=GROUP), _describe_topics)
