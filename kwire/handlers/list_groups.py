"""ListGroups: every group, filtered by state (version 4) and type (version 5), in any case."""

from kwire.broker.groups import LoadedCoordinator
from kwire.coordinator.group import GroupType
from kwire.errors import KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """List the groups of every coordinator."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    try:
        homes = context.broker.groups.all_coordinators()
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    groups = [_listed(home, group_id) for home in homes for group_id in home.groups.group_ids()]
    return ListGroupsResponse(
        groups=[
            group
            for group in groups
            if (not states or group.group_state.lower() in states)
            and (not types or group.group_type in types)
        ]
    )


def _listed(home: LoadedCoordinator, group_id: str) -> ListedGroup:
    group = home.groups.groups.get(group_id)
    state = home.groups.state_of(group_id)
    assert state is not None
    # A group that only has offsets counts as a classic one.
    return ListedGroup(
        group_id=group_id,
        protocol_type=group.protocol_type_name if group else "",
        group_state=state,
        group_type=(group.kind if group else GroupType.CLASSIC).value,
    )
