"""ConsumerGroupHeartbeat: a member of a consumer group joins, stays, or leaves (KIP-848).

Behavior: the answer comes at once. It says when the member has to send its next heartbeat: soon
while the group is unsettled. Version 1 brought regular expressions and member ids that clients
make. Behind an authorizer a regular expression matches only topics that the member may DESCRIBE.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kwire.coordinator.joining import Client, Visible
from kwire.errors import KafkaError
from kwire.handlers.consumer_group_describe import check_consumer_protocol
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.member_size import check_member_size
from kwire.handlers.lib.regexes import compile_ahead
from kwire.handlers.lib.replies import answer
from kwire.handlers.lib.rights import DESCRIBE, FAILED, GROUP, READ, TOPIC, Serve, once, right
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.runtime import Reply
from kwire.security.principal import Principal

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization
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
    client = Client(context.client_id or "", context.client_host, context.api_version, visible)
    reply = Reply()
    try:
        check_consumer_protocol(context.broker)
        regex = request.subscribed_topic_regex
        if regex:
            await compile_ahead(regex, context)
        if names := request.subscribed_topic_names:
            await check_member_size(names, len, context)
        home = context.broker.groups.coordinator_or_empty(request.group_id)
        now_ms = context.broker.groups.now_ms()
        home.carry_out(home.groups.consumer.heartbeat(request, client, reply, now_ms))
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )
    response = await answer(reply, context)
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    return response


@right("DESCRIBE on every topic that the member subscribes to by name")
async def _describe_topics(
    request: ConsumerGroupHeartbeatRequest, rights: "Authorization", serve: Serve
) -> Any:
    names = set(request.subscribed_topic_names or ())
    if names - await rights.allowed_names(DESCRIBE, TOPIC, names):
        return ConsumerGroupHeartbeatResponse(error_code=FAILED[TOPIC])
    return await serve(request)


RIGHTS = (once(READ, of=GROUP), _describe_topics)
