"""DeleteGroups: forget groups without members, and their offsets."""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """Delete every group that may be."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=_delete(group_id, context))
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


def _delete(group_id: str, context: RequestContext) -> ErrorCode:
    try:
        home = context.broker.groups.coordinator_or_empty(group_id)
        home.carry_out(home.groups.delete(group_id))
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
