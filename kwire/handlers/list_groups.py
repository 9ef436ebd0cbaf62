"""ListGroups: every group, filtered by state (from version 4) and type (from version 5).

The filters ignore upper and lower case.
"""

from collections.abc import Sequence

from kwire.broker.groups import LoadedCoordinator
from kwire.budget.work import Work
from kwire.coordinator.group import GroupType
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, GROUP, shown
from kwire.handlers.lib.slices import PIECE, give_way, pieces
from kwire.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

BYTES = 40


RIGHTS = (shown("groups", DESCRIBE, GROUP, named="group_id", instead=DESCRIBE),)


async def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """List the groups of every coordinator."""
    work = context.work
    states = await _lower(request.states_filter, work)
    types = await _lower(request.types_filter, work)
    try:
        homes = context.broker.groups.all_coordinators()
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    groups = []
    for home in homes:
        for group_id in home.coordinator.group_ids():
            await give_way(work)
            group = _listed(home, group_id)
            if (
                group is not None
                and (not states or group.group_state.lower() in states)
                and (not types or group.group_type in types)
            ):
                work.answer(BYTES + len(group_id))
                groups.append(group)
    return ListGroupsResponse(groups=groups)


async def _lower(names: Sequence[str], work: Work) -> set[str]:
    lower: set[str] = set()
    for piece in pieces(names):
        await give_way(work)
        lower.update(map(str.lower, piece))
    if len(lower) > PIECE:
        work.doomed.append(lower)
    return lower


def _listed(home: LoadedCoordinator, group_id: str) -> ListedGroup | None:
    """A group's entry in the list, None if the group was deleted meanwhile."""
    group = home.coordinator.groups.get(group_id)
    state = home.coordinator.state_of(group_id)
    if state is None:
        return None
    # A group that only has offsets counts as a classic group.
    return ListedGroup(
        group_id=group_id,
        protocol_type=group.protocol_type_name if group else "",
        group_state=state,
        group_type=(group.kind if group else GroupType.CLASSIC).value,
    )
