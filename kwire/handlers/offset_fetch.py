"""OffsetFetch: the offsets that groups have committed, of several groups from version 8 on.

Behaviour: -1 where nothing is committed; no list of topics means all that have an offset. Offsets
are stable at once, since there are no transactions that could hold them back.
"""

from kwire.coordinator.offsets import CommittedOffset, GroupOffsets
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.protocol.types import ZERO_UUID

GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
ERROR_SINCE = 2

_NOTHING = CommittedOffset(-1, -1, "", -1)


async def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Answer for every group."""
    if context.api_version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=[_group(group, context) for group in request.groups])
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    wanted = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return _single(_group(wanted, context), wanted, context)


def _group(wanted: OffsetFetchRequestGroup, context: RequestContext) -> OffsetFetchResponseGroup:
    try:
        home = context.broker.groups.coordinator_or_empty(wanted.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error.code)
    committed = home.groups.committed(wanted.group_id)
    if wanted.topics is None:
        topics = _everything(committed, context)
    else:
        topics = [_topic(topic, committed, context) for topic in wanted.topics]
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics)


def _everything(
    committed: GroupOffsets, context: RequestContext
) -> list[OffsetFetchResponseTopics]:
    """Every offset of a group; from version 10 on only of topics that exist, for they have ids."""
    answers = []
    for name, partitions in committed.topics.items():
        image = context.broker.image.topics_by_name.get(name)
        if image is None and context.api_version >= TOPIC_IDS_SINCE:
            continue
        answers.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=image.topic_id if image else ZERO_UUID,
                partitions=[_partition(index, found) for index, found in partitions.items()],
            )
        )
    return answers


def _topic(
    wanted: OffsetFetchRequestTopics, committed: GroupOffsets, context: RequestContext
) -> OffsetFetchResponseTopics:
    name = wanted.name
    code = ErrorCode.NONE
    if context.api_version >= TOPIC_IDS_SINCE:
        image = context.broker.image.topics_by_id.get(wanted.topic_id)
        if image is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            name = image.name
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=wanted.topic_id,
        partitions=[
            _partition(index, committed.get(name, index), code)
            for index in wanted.partition_indexes
        ],
    )


def _partition(
    index: int, found: CommittedOffset | None, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    found = _NOTHING if found is None or code else found
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=code,
    )


def _single(
    group: OffsetFetchResponseGroup, wanted: OffsetFetchRequestGroup, context: RequestContext
) -> OffsetFetchResponse:
    """The form of the answer before version 8, for one group."""
    response = OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=p.partition_index,
                        committed_offset=p.committed_offset,
                        committed_leader_epoch=p.committed_leader_epoch,
                        metadata=p.metadata,
                        error_code=p.error_code,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
    if group.error_code and context.api_version < ERROR_SINCE:
        response.topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=-1,
                        metadata="",
                        error_code=group.error_code,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in wanted.topics or []
        ]
    return response
