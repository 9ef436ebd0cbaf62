"""OffsetDelete: a tool forgets how far a group has read (KIP-496).

Behaviour: the offset of a topic that members read stays, GROUP_SUBSCRIBED_TO_TOPIC; where nobody
can tell what they read the whole request is NON_EMPTY_GROUP. An offset that isn't there is as good
as deleted.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    """Delete every offset that may be."""
    topics = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=p.partition_index,
                    error_code=_existence(topic.name, p.partition_index, context),
                )
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    try:
        _delete(request.group_id, topics, context)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    return OffsetDeleteResponse(topics=topics)


def _existence(topic: str, index: int, context: RequestContext) -> ErrorCode:
    found = context.broker.image.topics_by_name.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _delete(
    group_id: str, topics: list[OffsetDeleteResponseTopic], context: RequestContext
) -> None:
    home = context.broker.groups.coordinator(group_id)
    wanted = [
        (topic.name, partition)
        for topic in topics
        for partition in topic.partitions
        if not partition.error_code
    ]
    effects, read = home.groups.committed.delete(
        group_id, [(topic, partition.partition_index) for topic, partition in wanted]
    )
    for topic, partition in wanted:
        if topic in read:
            partition.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    home.carry_out(effects)
