"""The rights for the APIs of committed offsets: one to the group, and one to each topic.

Source: KafkaApis of Kafka.
"""

from typing import Any

from kwire.errors import ErrorCode
from kwire.handlers.guards.gate import FAILED, Gate, topics_apart
from kwire.handlers.waiting import later
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
FETCH_BY_ID_SINCE = 10
FETCH_GROUPS_SINCE = 8
FETCH_ERROR_SINCE = 2

UNITS_PER_GROUP = 10

_TOPIC_FAILED = FAILED[ResourceType.TOPIC]


async def offset_commit(request: OffsetCommitRequest, gate: Gate) -> OffsetCommitResponse:
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
                partitions=await gate.made(partition, topic.partitions),
            )
            for topic in topics
        ]

    if not gate.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        code = FAILED[ResourceType.GROUP]
        return OffsetCommitResponse(topics=await refuse(request.topics, code))
    by_id = gate.context.api_version >= COMMIT_BY_ID_SINCE
    kept, others = await topics_apart(request.topics, AclOperation.READ, gate, by_id=by_id)
    request.topics = kept
    response: OffsetCommitResponse = await gate.serve(request)
    response.topics += await refuse(others, _TOPIC_FAILED)
    return response


async def txn_offset_commit(request: TxnOffsetCommitRequest, gate: Gate) -> TxnOffsetCommitResponse:
    """WRITE on the transactional id, READ on the group and on each topic."""

    async def refuse(topics: list[Any], code: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
        def partition(one: Any) -> TxnOffsetCommitResponsePartition:
            return TxnOffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=code
            )

        return [
            TxnOffsetCommitResponseTopic(
                name=topic.name, partitions=await gate.made(partition, topic.partitions)
            )
            for topic in topics
        ]

    for operation, kind, name in (
        (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id),
        (AclOperation.READ, ResourceType.GROUP, request.group_id),
    ):
        if not gate.may(operation, kind, name):
            return TxnOffsetCommitResponse(topics=await refuse(request.topics, FAILED[kind]))
    kept, others = await topics_apart(request.topics, AclOperation.READ, gate)
    request.topics = kept
    if not kept:
        response = TxnOffsetCommitResponse()
    else:
        response = await gate.serve(request)
    response.topics += await refuse(others, _TOPIC_FAILED)
    return response


async def offset_delete(request: OffsetDeleteRequest, gate: Gate) -> OffsetDeleteResponse:
    """DELETE on the group, READ on each topic."""
    if not gate.may(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=FAILED[ResourceType.GROUP])
    kept, others = await topics_apart(request.topics, AclOperation.READ, gate)
    request.topics = kept
    response: OffsetDeleteResponse = await gate.serve(request)
    if not response.error_code:
        response.topics += await _not_deleted(others, gate)
    return response


async def _not_deleted(topics: list[Any], gate: Gate) -> list[OffsetDeleteResponseTopic]:
    def partition(one: Any) -> OffsetDeleteResponsePartition:
        return OffsetDeleteResponsePartition(
            partition_index=one.partition_index, error_code=_TOPIC_FAILED
        )

    return [
        OffsetDeleteResponseTopic(
            name=topic.name, partitions=await gate.made(partition, topic.partitions)
        )
        for topic in topics
    ]


async def offset_fetch(request: OffsetFetchRequest, gate: Gate) -> OffsetFetchResponse:
    """DESCRIBE on each group and each topic; a request for all topics leaves the others out."""
    if gate.context.api_version < FETCH_GROUPS_SINCE:
        return await _fetch_one(request, gate)
    ids = await gate.made(lambda group: group.group_id, request.groups, 1)
    allowed = await gate.allowed(AclOperation.DESCRIBE, ResourceType.GROUP, ids)
    request.groups, denied = await gate.apart(
        lambda group: group.group_id in allowed, request.groups
    )

    def refuse(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(
            group_id=group.group_id, topics=[], error_code=FAILED[ResourceType.GROUP]
        )

    refused = await gate.made(refuse, denied)
    work = gate.context.work
    others: list[list[OffsetFetchResponseTopics]] = []
    for group in request.groups:
        if others and work.spend(UNITS_PER_GROUP):
            await later(work.next_slice)
        others.append(await _fetchable(group, gate))
    response: OffsetFetchResponse = await gate.serve(request)
    last: OffsetFetchResponseGroup | None = None
    for wanted, answer, more in zip(request.groups, response.groups, others, strict=True):
        if last is not None and work.spend(UNITS_PER_GROUP):
            await later(work.next_slice)
        if wanted.topics is None:
            if answer is not last:  # a group that is named twice has the same answer object twice
                await _leave_out(answer, gate)
            last = answer
        elif not answer.error_code:
            answer.topics += more
    response.groups += refused
    return response


async def _fetch_one(request: OffsetFetchRequest, gate: Gate) -> OffsetFetchResponse:
    """The same for versions with one group."""
    has_error = gate.context.api_version >= FETCH_ERROR_SINCE
    if not gate.may(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
        code = FAILED[ResourceType.GROUP]
        if has_error:
            return OffsetFetchResponse(error_code=code, topics=[])
        return OffsetFetchResponse(topics=await _unseen(request.topics or [], code, gate))
    if request.topics is not None:
        kept, others = await topics_apart(request.topics, AclOperation.DESCRIBE, gate)
        request.topics = kept
        response: OffsetFetchResponse = await gate.serve(request)
        if not response.error_code:
            response.topics += await _unseen(others, _TOPIC_FAILED, gate)
        return response
    response = await gate.serve(request)
    await _leave_out(response, gate)
    return response


async def _unseen(topics: list[Any], code: ErrorCode, gate: Gate) -> list[OffsetFetchResponseTopic]:
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
            name=topic.name, partitions=await gate.made(partition, topic.partition_indexes)
        )
        for topic in topics
    ]


async def _fetchable(group: OffsetFetchRequestGroup, gate: Gate) -> list[OffsetFetchResponseTopics]:
    """Remove the topics that the client may not describe from a request; returns their answers."""
    if group.topics is None:
        return []
    by_id = gate.context.api_version >= FETCH_BY_ID_SINCE
    group.topics, others = await topics_apart(
        group.topics, AclOperation.DESCRIBE, gate, by_id=by_id
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
            partitions=await gate.made(partition, topic.partition_indexes),
        )
        for topic in others
    ]


async def _leave_out(answer: Any, gate: Gate) -> None:
    """Remove the topics that the client may not describe from an answer."""
    by_id = gate.context.api_version >= FETCH_BY_ID_SINCE
    answer.topics, _ = await topics_apart(
        answer.topics, AclOperation.DESCRIBE, gate, by_id=by_id, tells_denied=False
    )
