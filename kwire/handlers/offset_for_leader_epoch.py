"""OffsetForLeaderEpoch: the end of a leader epoch, by which consumers notice a truncated log."""

from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CLUSTER_ACTION, DESCRIBE, each
from kwire.handlers.lib.slices import give_way
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

RIGHTS = (each("topics", DESCRIBE, named="topic", instead=CLUSTER_ACTION),)


async def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Answer every partition."""
    work = context.work
    topics = []
    for topic in request.topics:
        answer = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        topics.append(answer)
        await give_way(work)
        for wanted in topic.partitions:
            await give_way(work)
            answer.partitions.append(_answer(topic.topic, wanted, context))
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(
    topic: str, wanted: OffsetForLeaderPartition, context: RequestContext
) -> EpochEndOffset:
    try:
        partition = context.broker.partition(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    if wanted.leader_epoch == partition.leader_epoch:
        epoch, end_offset = partition.leader_epoch, partition.log.log_end_offset
    else:
        epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
