"""OffsetFetch: the offsets that groups have committed, of several groups from version 8 on.

Behaviour: -1 where nothing is committed; no list of topics means all that have an offset. With
``require_stable`` an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT. The
offsets of an older topic of the same name count as none.
"""

from kwire.coordinator.offsets import CommittedOffset, OffsetStore
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


def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Answer for every group."""
    stable = request.require_stable
    if context.api_version >= GROUPS_SINCE:
        groups = [_group(wanted, stable, context) for wanted in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    wanted = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return _single(_group(wanted, stable, context), wanted, context)


def _group(
    wanted: OffsetFetchRequestGroup, stable: bool, context: RequestContext
) -> OffsetFetchResponseGroup:
    try:
        home = context.broker.groups.coordinator_or_empty(wanted.group_id)
        home.groups.committed.check_fetch(wanted.group_id, wanted.member_id, wanted.member_epoch)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error.code)
    reader = _Reader(wanted.group_id, home.groups.offsets, stable, context)
    if wanted.topics is None:
        topics = reader.everything()
    else:
        topics = [reader.topic(topic) for topic in wanted.topics]
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics)


class _Reader:
    """Reads the offsets of one group for one request."""

    def __init__(
        self, group_id: str, offsets: OffsetStore, stable: bool, context: RequestContext
    ) -> None:
        self._group_id = group_id
        self._offsets = offsets
        self._committed = offsets.of(group_id)
        self._stable = stable
        self._image = context.broker.image
        self._by_id = context.api_version >= TOPIC_IDS_SINCE

    def everything(self) -> list[OffsetFetchResponseTopics]:
        """Every offset; from version 10 on only of topics that exist, for the others have no id."""
        answers = []
        for name, partitions in self._committed.topics.items():
            topic = self._image.topics_by_name.get(name)
            if topic is None and self._by_id:
                continue
            topic_id = topic.topic_id if topic else ZERO_UUID
            held = [index for index, found in partitions.items() if found.belongs_to(topic_id)]
            if held:
                answers.append(self._answer(name, topic_id, held))
        return answers

    def topic(self, wanted: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        """The offsets of the partitions that are asked for."""
        if not self._by_id:
            topic = self._image.topics_by_name.get(wanted.name)
            topic_id = topic.topic_id if topic else ZERO_UUID
            return self._answer(wanted.name, topic_id, wanted.partition_indexes)
        topic = self._image.topics_by_id.get(wanted.topic_id)
        if topic is not None:
            return self._answer(topic.name, topic.topic_id, wanted.partition_indexes)
        return OffsetFetchResponseTopics(
            topic_id=wanted.topic_id,
            partitions=[
                _partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID)
                for index in wanted.partition_indexes
            ],
        )

    def _answer(self, name: str, topic_id: bytes, indexes: list[int]) -> OffsetFetchResponseTopics:
        partitions = []
        for index in indexes:
            found = self._committed.get(name, index)
            if self._stable and self._offsets.is_pending(self._group_id, name, index):
                partitions.append(_partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            elif found is None or not found.belongs_to(topic_id):
                partitions.append(_partition(index, None))
            else:
                partitions.append(_partition(index, found))
        return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)


def _partition(
    index: int, found: CommittedOffset | None, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    found = found or _NOTHING
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
