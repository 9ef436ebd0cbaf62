"""DeleteRecords: deletes the records before an offset; -1 means all records that exist now.

Behaviour: an answered deletion survives a crash, so the checkpoint is written before the answer.
"""

from kwire.broker.internal_topics import INTERNAL_TOPICS
from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.slices import pieces
from kwire.log.checkpoints import LOG_START_OFFSETS
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

UNITS = 1
UNITS_PER_PARTITION = 30


async def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Delete from every partition; each has its own result."""
    work = context.work
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for (topic, index), offset in (await _wanted(request, work)).items():
        if work.spend(UNITS_PER_PARTITION):
            await work.next_slice()
        if topic not in topics:
            topics[topic] = DeleteRecordsTopicResult(name=topic, partitions=[])
        topics[topic].partitions.append(_delete(topic, index, offset, context))
    broker = context.broker
    watermarks: dict[tuple[str, int], int] = {}
    for piece in pieces(broker.partitions()):
        if work.spend(UNITS * len(piece)):
            await work.next_slice()
        watermarks.update(((p.topic, p.index), p.high_watermark) for p in piece)
    if not await broker.threads.logs.run(
        broker.log_manager.checkpoint, watermarks, (LOG_START_OFFSETS,)
    ):
        for result in (result for topic in topics.values() for result in topic.partitions):
            if not result.error_code:
                result.error_code, result.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1
    return DeleteRecordsResponse(topics=list(topics.values()))


async def _wanted(request: DeleteRecordsRequest, work: Work) -> dict[tuple[str, int], int]:
    """The partitions, each once, with the offset that the request names last for it."""
    wanted: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            if work.spend(UNITS * (1 + len(piece))):
                await work.next_slice()
            wanted.update(((topic.name, one.partition_index), one.offset) for one in piece)
    return wanted


def _delete(
    topic: str, index: int, offset: int, context: RequestContext
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
    try:
        partition = context.broker.partition(topic, index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not partition.log.config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        result.low_watermark = partition.delete_records(offset)
    except KafkaError as error:
        result.error_code = error.code
    return result
