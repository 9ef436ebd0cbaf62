"""ListOffsets: the first and last offsets of partitions, and the first offset of a time.

Behavior of the special timestamps:

- -1: the latest offset, with read_committed the last stable offset. For a follower: the log end
  offset.
- -2: the earliest offset.
- -3: the offset of the record with the largest timestamp (KIP-734).
- -4: the earliest offset on the local disk (KIP-405), here the same as the earliest offset.
- -5 and -6: the latest offset in tiered storage, and the earliest offset that has to be uploaded
  there. kwire has no tiered storage, so the answer is -1.

Behavior of other timestamps: the offset of the first record whose timestamp is not smaller, or -1
if there is none.

- A record that the consumer may not read yet doesn't count, neither by time nor for -3.
- The high watermark of a new leader may be lower than offsets that consumers have seen, until it
  has reached the start of the leader's epoch. Meanwhile the answer for -1, and for a record that
  isn't found, is OFFSET_NOT_AVAILABLE (before version 5: LEADER_NOT_AVAILABLE).
- A partition that is named more than once is answered once, with INVALID_REQUEST.
"""

from kwire.broker.partition import Partition
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, each
from kwire.handlers.lib.slices import PIECE, give_way
from kwire.handlers.lib.time_lookups import find_by_time, find_largest
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
READ_COMMITTED = 1
LEADER_EPOCHS_SINCE = 4
NOT_AVAILABLE_SINCE = 5


# The first version that knows each special timestamp.
_SINCE = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}


RIGHTS = (each("topics", DESCRIBE),)


async def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    """Answer every partition."""
    work = context.work
    topics: dict[str, ListOffsetsTopicResponse] = {}
    answers: dict[tuple[str, int], ListOffsetsPartitionResponse | None] = {}
    for topic in request.topics:
        await give_way(work)
        told = topics.get(topic.name)
        if told is None:
            topics[topic.name] = told = ListOffsetsTopicResponse(name=topic.name, partitions=[])
        for wanted in topic.partitions:
            await give_way(work)
            key = topic.name, wanted.partition_index
            if key not in answers:
                answers[key] = answer = await _answer(request, topic.name, wanted, context)
                told.partitions.append(answer)
            elif (duplicate := answers[key]) is not None:
                answers[key] = None
                duplicate.error_code = ErrorCode.INVALID_REQUEST
                duplicate.offset = duplicate.timestamp = duplicate.leader_epoch = -1
    if len(answers) > PIECE:
        work.doomed.append(answers)
    return ListOffsetsResponse(topics=list(topics.values()))


async def _answer(
    request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition, context: RequestContext
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        partition = context.broker.partition(topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if context.api_version < _SINCE.get(wanted.timestamp, 0) or wanted.timestamp < -6:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        is_replica = request.replica_id >= 0
        if is_replica:
            end_offset = partition.log.log_end_offset
        elif request.isolation_level == READ_COMMITTED:
            end_offset = partition.last_stable_offset
        else:
            end_offset = partition.high_watermark
        await _find_offset(partition, wanted.timestamp, response, end_offset, context)
        is_behind = partition.high_watermark < partition.epoch_start
        if is_behind and not is_replica and _may_lie(wanted, response):
            is_new = context.api_version >= NOT_AVAILABLE_SINCE
            code = ErrorCode.OFFSET_NOT_AVAILABLE if is_new else ErrorCode.LEADER_NOT_AVAILABLE
            response = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            raise KafkaError(code)
        if context.api_version < LEADER_EPOCHS_SINCE:
            response.leader_epoch = -1
    except KafkaError as error:
        response.error_code = error.code
    return response


def _may_lie(wanted: ListOffsetsPartition, response: ListOffsetsPartitionResponse) -> bool:
    """Whether an answer depends on the high watermark, and so may be too low."""
    if wanted.timestamp == LATEST:
        return True
    return response.offset < 0 and (wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP)


async def _find_offset(
    partition: Partition,
    timestamp: int,
    response: ListOffsetsPartitionResponse,
    end_offset: int,
    context: RequestContext,
) -> None:
    """Fill in the offset that was found."""
    log = partition.log
    if timestamp == LATEST:
        response.offset, response.leader_epoch = end_offset, partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        response.offset = log.log_start_offset
        response.leader_epoch = log.leader_epochs.epoch_of(log.log_start_offset)
    elif timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        if timestamp == MAX_TIMESTAMP:
            found = await find_largest(partition, end_offset, context)
        else:
            found = await find_by_time(partition, timestamp, end_offset, context)
        if found is not None:
            response.offset, response.timestamp, response.leader_epoch = found
