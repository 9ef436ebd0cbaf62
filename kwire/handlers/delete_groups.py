"""DeleteGroups: deletes groups without members, and their offsets.

A group is deleted as a whole or not at all. While a deletion takes several slices, or the states
of a share group are ended, other requests about the group get COORDINATOR_LOAD_IN_PROGRESS, after
which clients try again.
"""

from contextlib import suppress
from functools import partial

import trio

from kwire.broker.groups import LoadedCoordinator
from kwire.budget.work import ClientGone, Work
from kwire.coordinator.group import GroupType
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
        known = home.coordinator.groups.get(group_id)
        if known is not None and known.kind is GroupType.SHARE:
            with groups.deleting(group_id):
                await _end_states(home, group_id, context)
        home.carry_out(home.coordinator.delete(group_id, most_offsets=PIECE))
        if home.coordinator.state_of(group_id) is not None:
            with groups.deleting(group_id):
                await later(partial(_delete_the_rest, home, group_id, context.work))
        return ErrorCode.NONE
    except KafkaError as error:
        return error.code


async def _end_states(home: LoadedCoordinator, group_id: str, context: RequestContext) -> None:
    """End the share states of a share group's partitions; KafkaError if one of them didn't end."""
    groups, share = context.broker.groups, home.coordinator.share
    effects, work = share.offsets.delete_all(share.group(group_id), groups.now_ms())
    home.carry_out(effects)
    if work is not None:
        failures = await later(partial(groups.do_state_work, home, work))
        for error in failures.values():
            raise error


async def _delete_the_rest(home: LoadedCoordinator, group_id: str, work: Work) -> None:
    """Finish a deletion that has begun, even if the client disconnects or the broker stops."""
    with trio.CancelScope(shield=True):
        while home.coordinator.state_of(group_id) is not None:
            with suppress(ClientGone):
                await work.give_way()
            home.carry_out(home.coordinator.delete(group_id, most_offsets=PIECE))
