"""DeleteGroups: deletes groups without members, and their offsets.

A group is deleted as a whole or not at all. While a deletion takes several slices, other requests
about the group get COORDINATOR_LOAD_IN_PROGRESS, after which clients try again.
"""

from contextlib import suppress
from functools import partial

import trio

from kwire.broker.groups import LoadedCoordinator
from kwire.budget.work import ClientGone, Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DELETE, GROUP, each
from kwire.handlers.lib.slices import PIECE, give_way
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

RIGHTS = (each("groups_names", DELETE, GROUP, is_distinct=True),)


async def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """Delete every group whose deletion is allowed."""
    work = context.work
    results: dict[str, DeletableGroupResult] = {}
    for group_id in request.groups_names:
        await give_way(work)
        if group_id not in results:
            await give_way(work)
            results[group_id] = result = DeletableGroupResult(group_id=group_id)
            result.error_code = await _delete(group_id, context)
    return DeleteGroupsResponse(results=list(results.values()))


async def _delete(group_id: str, context: RequestContext) -> ErrorCode:
    """Delete a group; if it has many offsets, they are deleted first, piece by piece."""
    groups = context.broker.groups
    try:
        home = groups.coordinator_or_empty(group_id)
        home.carry_out(home.groups.delete(group_id, most_offsets=PIECE))
        if home.groups.state_of(group_id) is not None:
            with groups.deleting(group_id):
                await later(partial(_delete_the_rest, home, group_id, context.work))
        return ErrorCode.NONE
    except KafkaError as error:
        return error.code


async def _delete_the_rest(home: LoadedCoordinator, group_id: str, work: Work) -> None:
    """Finish a deletion that has begun, even if the client disconnects or the broker stops."""
    with trio.CancelScope(shield=True):
        while home.groups.state_of(group_id) is not None:
            with suppress(ClientGone):
                await work.give_way()
            home.carry_out(home.groups.delete(group_id, most_offsets=PIECE))
