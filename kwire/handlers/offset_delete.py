"""OffsetDelete: a tool deletes the committed offsets of a group (KIP-496).

Behavior: the offset of a topic that members read stays: GROUP_SUBSCRIBED_TO_TOPIC. If the
coordinator can't read the members' subscriptions, the whole request is NON_EMPTY_GROUP. An offset
that doesn't exist counts as deleted.
"""

from collections.abc import Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DELETE, GROUP, READ, each, once
from kwire.handlers.lib.slices import PIECE, free_in_slices, give_way, pieces
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

Wanted = list[tuple[str, OffsetDeleteResponsePartition]]


RIGHTS = (
    once(DELETE, of=GROUP),
    each("topics", READ, asks_for_none=True),
)


async def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    """Delete every offset whose deletion is allowed, many of them in pieces."""
    work = context.work
    topics = []
    wanted: Wanted = []
    for topic in request.topics:
        answer = OffsetDeleteResponseTopic(name=topic.name, partitions=[])
        topics.append(answer)
        await give_way(work)
        for one in topic.partitions:
            await give_way(work)
            index = one.partition_index
            code = _existence(topic.name, index, context)
            partition = OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            answer.partitions.append(partition)
            if not code:
                wanted.append((topic.name, partition))
    free_in_slices(wanted, work)
    try:
        await _delete(request.group_id, wanted, context)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    return OffsetDeleteResponse(topics=topics)


def _existence(topic: str, index: int, context: RequestContext) -> ErrorCode:
    found = context.broker.image.topics_by_name.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


async def _delete(group_id: str, wanted: Wanted, context: RequestContext) -> None:
    _delete_piece(group_id, wanted[:PIECE], context)
    for piece in list(pieces(wanted[PIECE:])):
        await give_way(context.work)
        try:
            _delete_piece(group_id, piece, context)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return  # the group is gone, because its last offset is deleted by now


def _delete_piece(
    group_id: str,
    wanted: Sequence[tuple[str, OffsetDeleteResponsePartition]],
    context: RequestContext,
) -> None:
    home = context.broker.groups.coordinator(group_id)
    effects, read = home.coordinator.committed.delete(
        group_id, [(topic, partition.partition_index) for topic, partition in wanted]
    )
    for topic, partition in wanted:
        if topic in read:
            partition.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    home.carry_out(effects)
