"""ConsumerGroupHeartbeat: a member of a consumer group joins, stays, or leaves (KIP-848).

Behavior: the answer comes at once. It says when the member has to send its next heartbeat: soon
while the group is unsettled. Version 1 brought regular expressions and member ids that clients
make. Behind an authorizer a regular expression matches only topics that the member may DESCRIBE.
"""

from typing import TYPE_CHECKING, NamedTuple, cast

from kwire.coordinator.joining import Visible
from kwire.handlers.consumer_group_describe import check_consumer_protocol
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.member_size import check_member_size
from kwire.handlers.lib.modern_groups import heartbeat, subscribed_topics
from kwire.handlers.lib.regexes import compile_ahead
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.security.principal import Principal

if TYPE_CHECKING:
    from kwire.security.authorizer import Authorizer


class _Sight(NamedTuple):
    """The topics that a client may DESCRIBE."""

    authorizer: "Authorizer"
    principal: Principal
    peer_host: str

    def __call__(self, names: frozenset[str]) -> frozenset[str]:
        return self.authorizer.allowed_names(self, AclOperation.DESCRIBE, ResourceType.TOPIC, names)


async def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    """Take the member one step further."""
    authorizer = context.broker.authorizer
    visible: Visible | None = None
    if authorizer is not None:
        sight = _Sight(authorizer, context.principal, context.connection.peer_host)
        visible = cast(Visible, sight)  # mypy doesn't see that a named tuple can be called

    async def check_ahead() -> None:
        check_consumer_protocol(context.broker)
        if request.subscribed_topic_regex:
            await compile_ahead(request.subscribed_topic_regex, context)
        if names := request.subscribed_topic_names:
            await check_member_size(map(len, names), context)

    return await heartbeat(
        request,
        context,
        ConsumerGroupHeartbeatResponse,
        lambda groups: groups.consumer,
        check_ahead,
        visible,
    )


RIGHTS = (once(READ, of=GROUP), subscribed_topics(ConsumerGroupHeartbeatResponse))
