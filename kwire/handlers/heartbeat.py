"""Heartbeat: a member of a classic group is alive, and learns of a rebalance.

Behavior: while the coordinator is being loaded, the answer has no error, so that members stay.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

RIGHTS = (once(READ, of=GROUP),)


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    """Renew the member's session."""
    try:
        home = context.broker.groups.coordinator(request.group_id)
        home.coordinator.members.heartbeat(request, context.broker.groups.now_ms())
    except KafkaError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse(error_code=error.code)
    return HeartbeatResponse()
