"""FindCoordinator for a coordinator on another broker.

The coordinator waits a moment for all members that are about to join a group (decision 8). It knows
of these members because they ask for their coordinator first. If a member asks another broker, that
broker tells the coordinator before it answers.
"""

import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.advertised_listeners import advertised_brokers
from kwire.handlers.lib.context import RequestContext
from kwire.protocol.messages.announce_member import (
    AnnounceMemberRequest,
    AnnounceMemberResponse,
    Announcement,
)

PATIENCE_S = 0.2
"""How long a client waits for its announcement. Without it, a rebalance may begin too early."""

CONNECTIONS = 1 << 40
"""Each broker numbers its connections in a range of this size, which is never used up."""


def address_of(node_id: int, context: RequestContext) -> tuple[str, int]:
    """The address at which this client reaches a broker; KafkaError (COORDINATOR_NOT_AVAILABLE)."""
    for seen in advertised_brokers(context):
        if seen.node_id == node_id:
            return seen.host, seen.port
    raise KafkaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        f"broker {node_id} has no listener {context.connection.listener}",
    )


async def announce(group_id: str, node_id: int, context: RequestContext) -> None:
    """Tell a group's coordinator that this client may be about to join."""
    broker = context.broker
    connection_id = (broker.node_id + 1) * CONNECTIONS + context.connection.connection_id
    request = AnnounceMemberRequest(
        announcements=[Announcement(group_id=group_id, connection_id=connection_id)]
    )
    with trio.move_on_after(PATIENCE_S):
        try:
            await broker.peers.ask(node_id, request, AnnounceMemberResponse, version=0)
        except KafkaError:
            return  # the client itself will find out whether the coordinator answers
