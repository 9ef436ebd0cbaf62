"""OffsetForLeaderEpoch: where a leader epoch ended, so that consumers notice a cut log."""

from kwire.errors import KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Answer every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(topic.topic, wanted, context) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


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
