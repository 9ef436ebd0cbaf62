"""DeleteRecords: forget the records before an offset; -1 means all that there are now.

Behaviour: what is answered survives a crash, so the checkpoint is written first.
"""

from kwire.broker.internal_topics import INTERNAL_TOPICS
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.log.checkpoints import LOG_START_OFFSETS
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


async def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Delete from every partition, each with an answer of its own."""
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_delete(topic.name, wanted, context) for wanted in topic.partitions],
        )
        for topic in request.topics
    ]
    broker = context.broker
    watermarks = {(p.topic, p.index): p.high_watermark for p in broker.partitions()}
    if not await broker.threads.logs.run(
        broker.log_manager.checkpoint, watermarks, (LOG_START_OFFSETS,)
    ):
        for result in (result for topic in topics for result in topic.partitions):
            if not result.error_code:
                result.error_code, result.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1
    return DeleteRecordsResponse(topics=topics)


def _delete(
    topic: str, wanted: DeleteRecordsPartition, context: RequestContext
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        partition = context.broker.partition(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not partition.log.config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        result.low_watermark = partition.delete_records(wanted.offset)
    except KafkaError as error:
        result.error_code = error.code
    return result
