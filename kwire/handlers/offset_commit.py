"""OffsetCommit: a group's next offsets to read.

Behavior: a topic or partition that doesn't exist, or metadata that is too long, has an error of its
own. If the sender isn't a member (any more), or commits for a partition that it didn't have at its
epoch, all other partitions have an error, too. From version 10 on, the request names topics by id.
Before version 5, a client may say how long to keep its offsets. Offsets of more than ``PIECE``
partitions are written in pieces, and each piece succeeds or fails as a whole.
"""

from kwire.coordinator.effects import Effects
from kwire.coordinator.offsets import NO_EXPIRY
from kwire.coordinator.records import OffsetCommitValue
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.offset_writes import write_offsets
from kwire.handlers.lib.rights import GROUP, READ, each, once
from kwire.handlers.lib.slices import PIECE, give_way, pieces
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10


AcceptedOffset = tuple[OffsetCommitResponsePartition, str, OffsetCommitValue]
Accepted = list[AcceptedOffset]

LATEST_MS = (1 << 63) - 1
"""The latest time a record can hold. In Kafka the sum overflows: the offset expires at once."""


RIGHTS = (
    once(READ, of=GROUP),
    each("topics", READ, ids_since=TOPIC_IDS_SINCE),
)


async def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Write every offset that the group accepts."""
    work = context.work
    accepted: Accepted = []
    topics: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        await give_way(work)
        topics.append(await _check_topic(request, topic, context, accepted))
    if len(accepted) > PIECE:
        work.doomed.append(accepted)
    for piece in pieces(accepted):
        await give_way(work)
        if not piece:
            break
        try:
            home = context.broker.groups.coordinator_or_empty(request.group_id)
            write_offsets(request, context, home, piece, Effects())
        except KafkaError as error:
            # The response has no field for an error of the whole request.
            for answer, _, _ in piece:
                answer.error_code = error.code
    return OffsetCommitResponse(topics=topics)


async def _check_topic(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    context: RequestContext,
    accepted: Accepted,
) -> OffsetCommitResponseTopic:
    """The result for a topic; offsets that exist in the metadata are added to ``accepted``."""
    image = context.broker.image
    if context.api_version >= TOPIC_IDS_SINCE:
        found, missing = image.topics_by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = image.topics_by_name.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answers: list[OffsetCommitResponsePartition] = []
    work = context.work
    for partition in topic.partitions:
        await give_way(work)
        index = partition.partition_index
        answer = OffsetCommitResponsePartition(partition_index=index)
        answers.append(answer)
        if found is None:
            answer.error_code = missing
        elif not 0 <= index < len(found.partitions):
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            value = _value(request, partition, found.topic_id, context.broker.now_ms())
            accepted.append((answer, found.name, value))
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def _value(
    request: OffsetCommitRequest,
    partition: OffsetCommitRequestPartition,
    topic_id: bytes,
    now_ms: int,
) -> OffsetCommitValue:
    keep_ms = request.retention_time_ms
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=NO_EXPIRY if keep_ms == -1 else _expiry_ms(now_ms, keep_ms),
        topic_id=topic_id,
    )


def _expiry_ms(now_ms: int, keep_ms: int) -> int:
    """When an offset expires whose client sets its retention time (versions 2 to 4)."""
    return max(0, min(now_ms + keep_ms, LATEST_MS))
