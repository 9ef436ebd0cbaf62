"""OffsetCommit: a group's next offsets to read.

Behaviour: a topic or partition that doesn't exist, or metadata that is too long, is refused by
itself; of a member that is none (any more), or that commits for one partition it hadn't at its
epoch, everything else is refused too. From version 10 on
topics are named by id; before version 5 a client may say how long its offsets are to be kept.
"""

from kwire.coordinator.effects import Effects
from kwire.coordinator.group import Committer
from kwire.coordinator.offsets import NO_EXPIRY
from kwire.coordinator.records import OffsetCommitValue
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10

LATEST_MS = (1 << 63) - 1
"""The latest time a record can hold; where Kafka's sum goes beyond, the offset expires at once."""


def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Write every offset that may be committed."""
    accepted: list[tuple[OffsetCommitResponsePartition, str, OffsetCommitValue]] = []
    topics = [_check_topic(request, topic, context, accepted) for topic in request.topics]
    if accepted:
        try:
            _commit(request, context, accepted)
        except KafkaError as error:
            # The response has no place for an error of the whole request.
            for answer, _, _ in accepted:
                answer.error_code = error.code
    return OffsetCommitResponse(topics=topics)


def _check_topic(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    context: RequestContext,
    accepted: list[tuple[OffsetCommitResponsePartition, str, OffsetCommitValue]],
) -> OffsetCommitResponseTopic:
    """The answer for a topic; the offsets that may be committed are added to ``accepted``."""
    image = context.broker.image
    if context.api_version >= TOPIC_IDS_SINCE:
        found, missing = image.topics_by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = image.topics_by_name.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answers = []
    for partition in topic.partitions:
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
        expire_timestamp=NO_EXPIRY if keep_ms == -1 else _end(now_ms, keep_ms),
        topic_id=topic_id,
    )


def _end(now_ms: int, keep_ms: int) -> int:
    """When an offset expires whose client says how long it is to be kept (versions 2 to 4)."""
    return max(0, min(now_ms + keep_ms, LATEST_MS))


def _commit(
    request: OffsetCommitRequest,
    context: RequestContext,
    accepted: list[tuple[OffsetCommitResponsePartition, str, OffsetCommitValue]],
) -> None:
    home = context.broker.groups.coordinator_or_empty(request.group_id)
    committed = home.groups.committed
    committer = Committer(
        request.member_id,
        request.generation_id_or_member_epoch,
        request.group_instance_id,
        context.api_version,
    )
    committed.check_commit(request.group_id, committer, context.broker.groups.now_ms())
    effects = Effects()
    for answer, _, value in accepted:
        committed.check_commit_of(
            request.group_id, committer, value.topic_id, answer.partition_index
        )
    for answer, topic, value in accepted:
        try:
            committed.add_record(request.group_id, topic, answer.partition_index, value, effects)
        except KafkaError as error:
            answer.error_code = error.code
    home.carry_out(effects)
