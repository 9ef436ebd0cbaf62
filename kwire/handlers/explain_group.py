"""ExplainGroup, an API of kwire's own: why a group has rebalanced (``kwire groups explain``)."""

from kwire.coordinator.group import GroupType
from kwire.coordinator.streams.group import StreamsGroup
from kwire.coordinator.streams.problems import problems_of
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, GROUP, once
from kwire.protocol.messages.explain_group import (
    ExplainGroupRequest,
    ExplainGroupResponse,
    GroupEvent,
)

RIGHTS = (once(DESCRIBE, of=GROUP),)


def handle(request: ExplainGroupRequest, context: RequestContext) -> ExplainGroupResponse:
    """List the events of a group; GROUP_ID_NOT_FOUND for a group without any."""
    try:
        groups = context.broker.groups.coordinator(request.group_id).coordinator
    except KafkaError as error:
        return ExplainGroupResponse(error_code=error.code)
    group = groups.groups.get(request.group_id)
    state = groups.state_of(request.group_id)
    events = groups.history.events_of(request.group_id)
    if state is None and not events:
        return ExplainGroupResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    return ExplainGroupResponse(
        group_type=(group.kind if group else GroupType.CLASSIC).value if state else "",
        group_state=state or "",
        events=[GroupEvent(at_ms=event.at_ms, text=event.text) for event in events],
        problems=problems_of(group) if isinstance(group, StreamsGroup) else [],
    )
