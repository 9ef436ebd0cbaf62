"""ListPartitionReassignments: the moves of replicas that are under way (KIP-455).

Behavior: a null list of topics means all topics. Topics and partitions that don't exist or don't
move are left out.
"""

from collections.abc import Sequence

from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, once
from kwire.handlers.lib.slices import distinct, give_way, pieces
from kwire.metadata.image import TopicImage
from kwire.metadata.reassignment import is_reassigning
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

BYTES = 30


RIGHTS = (once(DESCRIBE, every=True),)


async def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """List the moves."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    known = context.broker.image.topics_by_name
    if request.topics is None:
        for topic in known.values():
            await _add(response, topic, range(len(topic.partitions)), context)
        return response
    for wanted in request.topics:
        await give_way(context.work)
        found = known.get(wanted.name)
        if found is not None:
            indexes = await distinct(wanted.partition_indexes, context.work)
            await _add(response, found, list(indexes), context)
    return response


async def _add(
    response: ListPartitionReassignmentsResponse,
    topic: TopicImage,
    indexes: Sequence[int],
    context: RequestContext,
) -> None:
    """Add the moves among these partitions of a topic."""
    moves: list[OngoingPartitionReassignment] = []
    for piece in pieces(indexes):
        await give_way(context.work)
        moves += [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
            for index in piece
            if 0 <= index < len(topic.partitions)
            for partition in (topic.partitions[index],)
            if is_reassigning(partition)
        ]
    if moves:
        context.work.answer(len(topic.name) + BYTES * len(moves))
        response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=moves))
