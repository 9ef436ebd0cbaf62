"""A coordinator on another broker, as FindCoordinator tells it.

The coordinator waits a moment for all members that are about to join a group (decision 8). It knows
of them by their questions for the coordinator. Now that they may ask another broker, that broker
tells the coordinator before it answers.
"""

import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.seen_brokers import seen_brokers
from kwire.protocol.messages.announce_member import (
    AnnounceMemberRequest,
    AnnounceMemberResponse,
    Announcement,
)

PATIENCE_S = 0.2
"""So long a client waits for its announcement: without it, a rebalance may come too early."""

CONNECTIONS = 1 << 40
"""More connections than a broker ever has: each broker numbers its connections in such a range."""


def address_of(node_id: int, context: RequestContext) -> tuple[str, int]:
    """Where this client reaches a broker; KafkaError (COORDINATOR_NOT_AVAILABLE)."""
    for seen in seen_brokers(context):
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
            return  # the client will see for itself whether the coordinator is there
