"""OffsetFetch: the offsets that groups have committed; from version 8 on, of several groups.

Behavior: -1 means that no offset is committed. No list of topics means all topics with an offset.
With ``require_stable``, an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT.
The offsets of a deleted topic don't count for a new topic of the same name.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from kwire.coordinator.offsets import CommittedOffset, OffsetStore
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, GROUP, TOPIC, Serve, denied, right
from kwire.handlers.lib.slices import give_way, pieces
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.protocol.refusing import refusing_each
from kwire.protocol.types import ZERO_UUID, MessageType

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
ERROR_SINCE = 2

BYTES = 20

_NOTHING = CommittedOffset(-1, -1, "", -1)


async def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Answer every group."""
    stable = request.require_stable
    if context.api_version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=await _groups(request, context))
    topics: list[OffsetFetchRequestTopics] | None = None
    if request.topics is not None:
        topics = []
        for piece in pieces(request.topics):
            await give_way(context.work)
            topics += [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in piece
            ]
    wanted = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return await _single(await _group(wanted, stable, context), wanted, context)


async def _groups(
    request: OffsetFetchRequest, context: RequestContext
) -> list[OffsetFetchResponseGroup]:
    """The answers for groups; a repeated request for all offsets of a group is answered alike."""
    work = context.work
    whole: dict[tuple[str, str | None, int], tuple[OffsetFetchResponseGroup, int]] = {}
    groups: list[OffsetFetchResponseGroup] = []
    for wanted in request.groups:
        await give_way(work)
        if wanted.topics is not None:
            groups.append(await _group(wanted, request.require_stable, context))
            continue
        key = wanted.group_id, wanted.member_id, wanted.member_epoch
        if key in whole:
            group, size_bytes = whole[key]
            work.answer(size_bytes)
        else:
            before_bytes = work.answered_bytes
            group = await _group(wanted, request.require_stable, context)
            whole[key] = group, work.answered_bytes - before_bytes
        groups.append(group)
    return groups


async def _group(
    wanted: OffsetFetchRequestGroup, stable: bool, context: RequestContext
) -> OffsetFetchResponseGroup:
    try:
        home = context.broker.groups.coordinator_or_empty(wanted.group_id)
        home.coordinator.committed.check_fetch(
            wanted.group_id, wanted.member_id, wanted.member_epoch
        )
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error.code)
    reader = _Reader(wanted.group_id, home.coordinator.offsets, stable, context)
    context.work.answer(BYTES)
    if wanted.topics is None:
        topics = await reader.everything()
    else:
        topics = [await reader.topic(topic) for topic in wanted.topics]
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
        self._work = context.work
        self._image = context.broker.image
        self._by_id = context.api_version >= TOPIC_IDS_SINCE

    async def everything(self) -> list[OffsetFetchResponseTopics]:
        """Every offset; from version 10 on only of existing topics, because others have no id."""
        answers = []
        for name, partitions in list(self._committed.topics.items()):
            topic = self._image.topics_by_name.get(name)
            if topic is None and self._by_id:
                continue
            topic_id = topic.topic_id if topic else ZERO_UUID
            held = [index for index, found in partitions.items() if found.belongs_to(topic_id)]
            if held:
                answers.append(await self._answer(name, topic_id, held))
        return answers

    async def topic(self, wanted: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        """The offsets of the partitions that the request names."""
        if not self._by_id:
            topic = self._image.topics_by_name.get(wanted.name)
            topic_id = topic.topic_id if topic else ZERO_UUID
            return await self._answer(wanted.name, topic_id, wanted.partition_indexes)
        topic = self._image.topics_by_id.get(wanted.topic_id)
        if topic is not None:
            return await self._answer(topic.name, topic.topic_id, wanted.partition_indexes)
        unknown = OffsetFetchResponseTopics(topic_id=wanted.topic_id, partitions=[])
        for piece in pieces(wanted.partition_indexes):
            await give_way(self._work)
            unknown.partitions += [
                _partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in piece
            ]
        return unknown

    async def _answer(
        self, name: str, topic_id: bytes, indexes: Sequence[int]
    ) -> OffsetFetchResponseTopics:
        partitions: list[OffsetFetchResponsePartitions] = []
        for piece in pieces(indexes):
            await give_way(self._work)
            size_bytes = BYTES + len(name) + BYTES * len(piece)
            for index in piece:
                found = self._committed.get(name, index)
                if self._stable and self._offsets.is_pending(self._group_id, name, index):
                    partitions.append(_partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                elif found is None or not found.belongs_to(topic_id):
                    partitions.append(_partition(index, None))
                else:
                    size_bytes += len(found.metadata)
                    partitions.append(_partition(index, found))
            self._work.answer(size_bytes)
        return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)


def _partition(
    index: int, committed: CommittedOffset | None, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    committed = committed or _NOTHING
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


async def _single(
    group: OffsetFetchResponseGroup, wanted: OffsetFetchRequestGroup, context: RequestContext
) -> OffsetFetchResponse:
    """The answer in the form before version 8, for one group."""
    response = OffsetFetchResponse(error_code=group.error_code, topics=[])
    work = context.work
    if group.error_code and context.api_version < ERROR_SINCE:
        for asked in wanted.topics or []:
            refused = OffsetFetchResponseTopic(name=asked.name, partitions=[])
            response.topics.append(refused)
            for piece in pieces(asked.partition_indexes):
                await give_way(work)
                refused.partitions += [_refused(index, group.error_code) for index in piece]
        return response
    for topic in group.topics:
        answer = OffsetFetchResponseTopic(name=topic.name, partitions=[])
        response.topics.append(answer)
        for part in pieces(topic.partitions):
            await give_way(work)
            answer.partitions += map(_single_partition, part)
    return response


def _single_partition(offset: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=offset.partition_index,
        committed_offset=offset.committed_offset,
        committed_leader_epoch=offset.committed_leader_epoch,
        metadata=offset.metadata,
        error_code=offset.error_code,
    )


def _refused(index: int, error_code: int) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index, committed_offset=-1, metadata="", error_code=error_code
    )


@right("DESCRIBE on each group and each topic; a request for all topics leaves the others out")
async def _describe_each(request: OffsetFetchRequest, rights: "Authorization", serve: Serve) -> Any:
    if rights.context.api_version < GROUPS_SINCE:
        return await _describe_one(request, rights, serve)
    request.groups, denied_groups = await rights.split_by_name(
        request.groups, DESCRIBE, GROUP, lambda group: group.group_id
    )
    work = rights.context.work
    others: list[list[OffsetFetchResponseTopics]] = []
    for group in request.groups:
        await give_way(work)
        others.append(await _take_hidden(group, OffsetFetchResponseTopics, rights))
    response: OffsetFetchResponse = await serve(request)
    last: OffsetFetchResponseGroup | None = None
    for wanted, answer, more in zip(request.groups, response.groups, others, strict=True):
        await give_way(work)
        if wanted.topics is None:
            if answer is not last:  # a group that is named twice has the same answer object twice
                await _leave_out(answer, rights)
            last = answer
        elif not answer.error_code:
            answer.topics += more
    response.groups += await rights.refused_elements(
        request, "groups", denied_groups, denied(GROUP)
    )
    return response


async def _describe_one(request: OffsetFetchRequest, rights: "Authorization", serve: Serve) -> Any:
    """The same for versions with one group."""
    version = rights.context.api_version
    if not rights.may(DESCRIBE, GROUP, request.group_id):
        return await rights.refuse(request, denied(GROUP), every=version < ERROR_SINCE)
    others = await _take_hidden(request, OffsetFetchResponseTopic, rights)
    response: OffsetFetchResponse = await serve(request)
    if request.topics is None:
        await _leave_out(response, rights)
    elif not response.error_code:
        response.topics += others
    return response


async def _take_hidden(group: Any, answer: MessageType, rights: "Authorization") -> list[Any]:
    """Remove the topics that the client may not describe from a request; returns their answers."""
    if group.topics is None:
        return []
    kept, hidden = await rights.split_by_name(group.topics, DESCRIBE, TOPIC, _name_of(rights))
    group.topics, error = kept, denied(TOPIC)
    single = answer is OffsetFetchResponseTopic
    kind = OffsetFetchRequestTopic if single else OffsetFetchRequestTopics
    refused = refusing_each(hidden, kind, answer, error, rights.context.api_version)
    made: list[Any] = await rights.made(refused, error)
    return made


async def _leave_out(answer: Any, rights: "Authorization") -> None:
    """Remove the topics that the client may not describe from an answer."""
    answer.topics, _ = await rights.split_by_name(
        answer.topics, DESCRIBE, TOPIC, _name_of(rights), tells_denied=False
    )


def _name_of(rights: "Authorization") -> Callable[[Any], str | None]:
    """The name of a topic in a request or a response; None for an id that doesn't exist."""
    if rights.context.api_version < TOPIC_IDS_SINCE:
        return lambda topic: cast(str, topic.name)
    return rights.name_of_topic


RIGHTS = (_describe_each,)
