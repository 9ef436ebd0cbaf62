"""ShareGroupHeartbeat: a member of a share group joins, stays, or leaves (KIP-932).

Behavior: the answer comes at once. It says when the member has to send its next heartbeat: soon
while the group is unsettled. A member that joins gets partitions once they have share states.
"""

from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.member_size import check_member_size
from kwire.handlers.lib.modern_groups import heartbeat, subscribed_topics
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.handlers.lib.share_groups import check_share_protocol
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

RIGHTS = (once(READ, of=GROUP), subscribed_topics(ShareGroupHeartbeatResponse))


async def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    """Take the member one step further."""

    async def check_ahead() -> None:
        check_share_protocol(context.broker)
        if names := request.subscribed_topic_names:
            await check_member_size(map(len, names), context)

    return await heartbeat(
        request, context, ShareGroupHeartbeatResponse, lambda groups: groups.share, check_ahead
    )
