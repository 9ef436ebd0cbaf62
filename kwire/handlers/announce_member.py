"""AnnounceMember, an API among brokers: clients are about to join groups of this coordinator.

A group whose coordinator is no longer here is left out: its clients will ask again.
"""

from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CLUSTER_ACTION, once
from kwire.handlers.lib.slices import give_way
from kwire.protocol.messages.announce_member import AnnounceMemberRequest, AnnounceMemberResponse

RIGHTS = (once(CLUSTER_ACTION),)


async def handle(request: AnnounceMemberRequest, context: RequestContext) -> AnnounceMemberResponse:
    """Note every client with its group."""
    for one in request.announcements:
        await give_way(context.work)
        context.broker.groups.announce(one.group_id, one.connection_id)
    return AnnounceMemberResponse()
