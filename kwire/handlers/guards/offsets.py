"""The rights for the APIs of committed offsets: one to the group, and one to each topic.

Source: KafkaApis of Kafka.
"""

from typing import Any

from kwire.errors import ErrorCode
from kwire.handlers.guards.authorization import FAILED, Authorization, split_topics
from kwire.handlers.lib.slices import give_way
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

COMMIT_BY_ID_SINCE = 10
TXN_COMMIT_BY_ID_SINCE = 6
FETCH_BY_ID_SINCE = 10
FETCH_GROUPS_SINCE = 8
FETCH_ERROR_SINCE = 2


_TOPIC_FAILED = FAILED[ResourceType.TOPIC]


async def offset_commit(
    request: OffsetCommitRequest, rights: Authorization
) -> OffsetCommitResponse:
    """READ on the group and on each topic."""

    async def refuse(topics: list[Any], code: ErrorCode) -> list[OffsetCommitResponseTopic]:
        def partition(one: Any) -> OffsetCommitResponsePartition:
            return OffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=code
            )

        return [
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=await rights.make_each(partition, topic.partitions),
            )
            for topic in topics
        ]

    if not rights.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        code = FAILED[ResourceType.GROUP]
        return OffsetCommitResponse(topics=await refuse(request.topics, code))
    by_id = rights.context.api_version >= COMMIT_BY_ID_SINCE
    kept, others = await split_topics(request.topics, AclOperation.READ, rights, by_id=by_id)
    request.topics = kept
    response: OffsetCommitResponse = await rights.serve(request)
    response.topics += await refuse(others, _TOPIC_FAILED)
    return response


async def txn_offset_commit(
    request: TxnOffsetCommitRequest, rights: Authorization
) -> TxnOffsetCommitResponse:
    """WRITE on the transactional id, READ on the group and on each topic."""

    async def refuse(topics: list[Any], code: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
        def partition(one: Any) -> TxnOffsetCommitResponsePartition:
            return TxnOffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=code
            )

        return [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=await rights.make_each(partition, topic.partitions),
            )
            for topic in topics
        ]

    for operation, kind, name in (
        (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id),
        (AclOperation.READ, ResourceType.GROUP, request.group_id),
    ):
        if not rights.may(operation, kind, name):
            return TxnOffsetCommitResponse(topics=await refuse(request.topics, FAILED[kind]))
    by_id = rights.context.api_version >= TXN_COMMIT_BY_ID_SINCE
    kept, others = await split_topics(request.topics, AclOperation.READ, rights, by_id=by_id)
    request.topics = kept
    if not kept:
        response = TxnOffsetCommitResponse()
    else:
        response = await rights.serve(request)
    response.topics += await refuse(others, _TOPIC_FAILED)
    return response


async def offset_delete(
    request: OffsetDeleteRequest, rights: Authorization
) -> OffsetDeleteResponse:
    """DELETE on the group, READ on each topic."""
    if not rights.may(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=FAILED[ResourceType.GROUP])
    kept, others = await split_topics(request.topics, AclOperation.READ, rights)
    request.topics = kept
    response: OffsetDeleteResponse = await rights.serve(request)
    if not response.error_code:
        response.topics += await _not_deleted(others, rights)
    return response


async def _not_deleted(topics: list[Any], rights: Authorization) -> list[OffsetDeleteResponseTopic]:
    def partition(one: Any) -> OffsetDeleteResponsePartition:
        return OffsetDeleteResponsePartition(
            partition_index=one.partition_index, error_code=_TOPIC_FAILED
        )

    return [
        OffsetDeleteResponseTopic(
            name=topic.name, partitions=await rights.make_each(partition, topic.partitions)
        )
        for topic in topics
    ]


async def offset_fetch(request: OffsetFetchRequest, rights: Authorization) -> OffsetFetchResponse:
    """DESCRIBE on each group and each topic; a request for all topics leaves the others out."""
    if rights.context.api_version < FETCH_GROUPS_SINCE:
        return await _fetch_one(request, rights)
    ids = await rights.make_each(lambda group: group.group_id, request.groups)
    allowed = await rights.allowed_names(AclOperation.DESCRIBE, ResourceType.GROUP, ids)
    request.groups, denied = await rights.split(
        lambda group: group.group_id in allowed, request.groups
    )

    def refuse(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(
            group_id=group.group_id, topics=[], error_code=FAILED[ResourceType.GROUP]
        )

    refused = await rights.make_each(refuse, denied)
    work = rights.context.work
    others: list[list[OffsetFetchResponseTopics]] = []
    for group in request.groups:
        await give_way(work)
        others.append(await _fetchable(group, rights))
    response: OffsetFetchResponse = await rights.serve(request)
    last: OffsetFetchResponseGroup | None = None
    for wanted, answer, more in zip(request.groups, response.groups, others, strict=True):
        await give_way(work)
        if wanted.topics is None:
            if answer is not last:  # a group that is named twice has the same answer object twice
                await _leave_out(answer, rights)
            last = answer
        elif not answer.error_code:
            answer.topics += more
    response.groups += refused
    return response


async def _fetch_one(request: OffsetFetchRequest, rights: Authorization) -> OffsetFetchResponse:
    """The same for versions with one group."""
    has_error = rights.context.api_version >= FETCH_ERROR_SINCE
    if not rights.may(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
        code = FAILED[ResourceType.GROUP]
        if has_error:
            return OffsetFetchResponse(error_code=code, topics=[])
        return OffsetFetchResponse(topics=await _unseen(request.topics or [], code, rights))
    if request.topics is not None:
        kept, others = await split_topics(request.topics, AclOperation.DESCRIBE, rights)
        request.topics = kept
        response: OffsetFetchResponse = await rights.serve(request)
        if not response.error_code:
            response.topics += await _unseen(others, _TOPIC_FAILED, rights)
        return response
    response = await rights.serve(request)
    await _leave_out(response, rights)
    return response


async def _unseen(
    topics: list[Any], code: ErrorCode, rights: Authorization
) -> list[OffsetFetchResponseTopic]:
    def partition(index: int) -> OffsetFetchResponsePartition:
        return OffsetFetchResponsePartition(
            partition_index=index,
            committed_offset=-1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=code,
        )

    return [
        OffsetFetchResponseTopic(
            name=topic.name, partitions=await rights.make_each(partition, topic.partition_indexes)
        )
        for topic in topics
    ]


async def _fetchable(
    group: OffsetFetchRequestGroup, rights: Authorization
) -> list[OffsetFetchResponseTopics]:
    """Remove the topics that the client may not describe from a request; returns their answers."""
    if group.topics is None:
        return []
    by_id = rights.context.api_version >= FETCH_BY_ID_SINCE
    group.topics, others = await split_topics(
        group.topics, AclOperation.DESCRIBE, rights, by_id=by_id
    )

    def partition(index: int) -> OffsetFetchResponsePartitions:
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=-1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=_TOPIC_FAILED,
        )

    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=await rights.make_each(partition, topic.partition_indexes),
        )
        for topic in others
    ]


async def _leave_out(answer: Any, rights: Authorization) -> None:
    """Remove the topics that the client may not describe from an answer."""
    by_id = rights.context.api_version >= FETCH_BY_ID_SINCE
    answer.topics, _ = await split_topics(
        answer.topics, AclOperation.DESCRIBE, rights, by_id=by_id, tells_denied=False
    )
