"""OffsetCommit: a group's next offsets to read.

Behaviour: a topic or partition that doesn't exist, or metadata that is too long, is refused by
itself; a member that is none (any more) is refused as a whole. From version 10 on topics are named
by id.
"""

from kwire.coordinator.effects import Effects
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.records import OffsetCommitValue
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.image import TopicImage
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10


async def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Write every offset that may be committed."""
    effects = Effects()
    try:
        home = context.broker.groups.coordinator_or_empty(request.group_id)
        home.groups.check_commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            context.broker.now_ms(),
        )
        response = OffsetCommitResponse(
            topics=[
                _commit_topic(request, topic, context, home.groups, effects)
                for topic in request.topics
            ]
        )
        home.carry_out(effects)
    except KafkaError as error:
        return _refused(request, error.code)
    return response


def _commit_topic(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    context: RequestContext,
    groups: GroupCoordinator,
    effects: Effects,
) -> OffsetCommitResponseTopic:
    image = context.broker.image
    by_id = context.api_version >= TOPIC_IDS_SINCE
    if by_id:
        found = image.topics_by_id.get(topic.topic_id)
    else:
        found = image.topics_by_name.get(topic.name)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = []
    for partition in topic.partitions:
        code = ErrorCode.NONE
        try:
            if found is None:
                raise KafkaError(missing)
            value = _value(found, partition, context.broker.now_ms())
            groups.offset_record(
                request.group_id, found.name, partition.partition_index, value, effects
            )
        except KafkaError as error:
            code = error.code
        partitions.append(
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
        )
    return OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def _value(
    topic: TopicImage, partition: OffsetCommitRequestPartition, now_ms: int
) -> OffsetCommitValue:
    if not 0 <= partition.partition_index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        topic_id=topic.topic_id,
    )


def _refused(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The same error for everything: the response has no place for one of its own."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
