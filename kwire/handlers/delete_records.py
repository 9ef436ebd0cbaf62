"""DeleteRecords: deletes the records before an offset; -1 means all records that exist now.

Behavior:

- An answered deletion survives a crash, so the checkpoint is written before the answer.
- The answer waits until the followers on active brokers have deleted the records too. A follower
  learns the new log start offset with its next fetch.
- A partition whose followers still have the records after ``timeout_ms`` is answered with
  REQUEST_TIMED_OUT.
"""

import trio

from kwire.broker.partition import Partition
from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DELETE, each
from kwire.handlers.lib.slices import pieces
from kwire.handlers.lib.waiting import in_task
from kwire.log.checkpoints import LOG_START_OFFSETS
from kwire.metadata.image import INTERNAL_TOPICS
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

RIGHTS = (each("topics", DELETE),)


@in_task
async def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Delete the records of every partition; each partition has its own result."""
    work = context.work
    deadline_s = trio.current_time() + max(request.timeout_ms, 0) / 1000
    topics: dict[str, DeleteRecordsTopicResult] = {}
    done: list[tuple[Partition, DeleteRecordsPartitionResult]] = []
    for (topic, index), offset in (await _wanted(request, work)).items():
        await work.give_way()
        if topic not in topics:
            topics[topic] = DeleteRecordsTopicResult(name=topic, partitions=[])
        partition, result = _delete(topic, index, offset, context)
        topics[topic].partitions.append(result)
        if partition is not None:
            done.append((partition, result))
    if not await _checkpoint(context):
        for _, result in done:
            result.error_code, result.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1
        done = []
    with trio.move_on_at(deadline_s):
        for partition, result in done:
            await _wait_for_followers(partition, result.low_watermark)
    for partition, result in done:
        _judge(partition, result)
    return DeleteRecordsResponse(topics=list(topics.values()))


async def _checkpoint(context: RequestContext) -> bool:
    """Write the log start offsets to the checkpoints; False if the disk refuses."""
    manager = context.broker.log_manager
    return await context.broker.threads.logs.run(manager.checkpoint, dict, (LOG_START_OFFSETS,))


async def _wanted(request: DeleteRecordsRequest, work: Work) -> dict[tuple[str, int], int]:
    """Each partition once; if the request names it several times, with the last offset."""
    wanted: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            await work.give_way()
            wanted.update(((topic.name, one.partition_index), one.offset) for one in piece)
    return wanted


def _delete(
    topic: str, index: int, offset: int, context: RequestContext
) -> tuple[Partition | None, DeleteRecordsPartitionResult]:
    """The partition and a result with its log start offset, or None and a result with an error."""
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
        return None, result
    return partition, result


async def _wait_for_followers(partition: Partition, offset: int) -> None:
    """Wait until no replica has records before ``offset``, or this broker no longer leads."""
    while partition.low_watermark < offset and not partition.is_deleted:
        change = trio.Event()
        partition.waiters.add(change)
        try:
            await change.wait()
        finally:
            partition.waiters.discard(change)


def _judge(partition: Partition, result: DeleteRecordsPartitionResult) -> None:
    """Put an error into the result if a replica may still have the records."""
    if partition.low_watermark >= result.low_watermark:
        result.low_watermark = partition.low_watermark
        return
    moved = partition.is_deleted
    result.low_watermark = -1
    result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if moved else ErrorCode.REQUEST_TIMED_OUT
