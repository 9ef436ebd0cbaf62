"""The price of a step of a classic group, which looks at all members of the group."""

from kwire.broker.groups import LoadedCoordinator
from kwire.coordinator.classic_group import ClassicGroup
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.waiting import later

MEMBERS_PER_UNIT = 8


async def coordinator_for_step(group_id: str, context: RequestContext) -> LoadedCoordinator:
    """The coordinator of a group, once the request has paid for a step of the group; KafkaError.

    The request of a large group waits for a slice, so that the members of the group don't take
    their steps all in one pass of the event loop.
    """
    groups = context.broker.groups
    home = groups.coordinator(group_id)
    group = home.groups.groups.get(group_id)
    units = len(group.members) // MEMBERS_PER_UNIT if isinstance(group, ClassicGroup) else 0
    if units and context.work.spend(units):
        await later(context.work.next_slice)
        return groups.coordinator(group_id)
    return home
