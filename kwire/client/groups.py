"""Groups: describe and delete."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from kwire.client.cluster import Cluster
from kwire.client.leaders import TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.codec import MalformedRequest, decoder
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kwire.protocol.messages.consumer_group_describe import DescribedGroup as DescribedNew
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.protocol.messages.share_group_describe import DescribedGroup as DescribedShare
from kwire.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kwire.protocol.messages.streams_group_describe import DescribedGroup as DescribedStreams
from kwire.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TaskIds,
)

_VERSION_BYTES = 2
_NEWEST_ASSIGNMENT = 3
_OTHER_TYPE = {
    "consumer": {ErrorCode.GROUP_ID_NOT_FOUND},
    "share": {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION},
    "streams": {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION},
}
"""What a coordinator answers about a group of another type, or if it has none of the type."""

DescribedModern: TypeAlias = DescribedNew | DescribedShare


class TaskView(NamedTuple):
    """A task of a member of a streams group; ``role`` is active, standby or warm-up.

    ``state`` says whether the member has it, is yet to get it, or has to give it back.
    """

    subtopology: str
    partition: int
    role: str
    state: str


class MemberView(NamedTuple):
    """A member of a group, and the partitions that it has: in a streams group it reads them."""

    member_id: str
    client_id: str
    host: str
    partitions: list[TopicPartition]
    tasks: Sequence[TaskView] = ()


class GroupView(NamedTuple):
    """A group as its coordinator describes it; ``type`` is classic, consumer, share or streams.

    In a share group several members have the same partition.
    """

    group: str
    type: str
    state: str
    assignor: str
    coordinator: int
    members: list[MemberView]


async def describe_group(cluster: Cluster, group: str) -> GroupView:
    """A group of any of these types; KafkaError, GROUP_ID_NOT_FOUND if there is no such group."""
    served = (await (await cluster.any_peer()).served()).ranges
    for kind, request, response in (
        ("consumer", ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        ("share", ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        ("streams", StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
    ):
        if request.API_KEY not in served:
            continue
        found: (
            ConsumerGroupDescribeResponse
            | ShareGroupDescribeResponse
            | StreamsGroupDescribeResponse
        )
        found = await cluster.ask_coordinator(
            group,
            request(group_ids=[group]),
            response,
            lambda answer: [row.error_code for row in answer.groups],
        )
        [modern] = found.groups
        if not modern.error_code:
            coordinator = await cluster.coordinator(group)
            if isinstance(modern, DescribedStreams):
                return view_of_streams(modern, coordinator)
            return view_of_modern(modern, kind, coordinator)
        if modern.error_code not in _OTHER_TYPE[kind]:
            _raise_error(modern.error_code, modern.error_message, group)
    answer = await cluster.ask_coordinator(
        group,
        DescribeGroupsRequest(groups=[group]),
        DescribeGroupsResponse,
        lambda answer: [row.error_code for row in answer.groups],
    )
    [row] = answer.groups
    _raise_error(row.error_code, row.error_message, group)
    if row.group_state == "Dead":
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group}")
    return view_of_classic(row, await cluster.coordinator(group))


async def delete_groups(cluster: Cluster, groups: Sequence[str]) -> dict[str, KafkaError | None]:
    """Delete groups; the error of each, None after success."""
    results: dict[str, KafkaError | None] = {}
    for group in groups:
        answer = await cluster.ask_coordinator(
            group,
            DeleteGroupsRequest(groups_names=[group]),
            DeleteGroupsResponse,
            lambda answer: [row.error_code for row in answer.results],
        )
        [row] = answer.results
        failure = (
            KafkaError(ErrorCode(row.error_code), f"group {group}") if row.error_code else None
        )
        results[group] = failure
    return results


def view_of_modern(row: DescribedModern, kind: str, coordinator: int) -> GroupView:
    """A described group of the type ``kind`` whose partitions the coordinator assigns."""
    members = [
        MemberView(
            member.member_id,
            member.client_id,
            member.client_host,
            [
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            ],
        )
        for member in row.members
    ]
    return GroupView(row.group_id, kind, row.group_state, row.assignor_name, coordinator, members)


def view_of_streams(row: DescribedStreams, coordinator: int) -> GroupView:
    """A described streams group: a task reads its partition of each topic of its subtopology."""
    topics: dict[str, list[str]] = {}
    for one in row.topology.subtopologies or () if row.topology else ():
        repartitions = (topic.name for topic in one.repartition_source_topics)
        topics[one.subtopology_id] = [*one.source_topics, *repartitions]
    members = []
    for member in row.members:
        has, wanted = member.assignment, member.target_assignment
        partitions = [
            TopicPartition(topic, index)
            for tasks in has.active_tasks
            for topic in topics.get(tasks.subtopology_id, ())
            for index in tasks.partitions
        ]
        tasks = [
            *_tasks("active", has.active_tasks, wanted.active_tasks),
            *_tasks("standby", has.standby_tasks, wanted.standby_tasks),
            *_tasks("warm-up", has.warmup_tasks, wanted.warmup_tasks),
        ]
        members.append(
            MemberView(member.member_id, member.client_id, member.client_host, partitions, tasks)
        )
    assignor = row.assignor_name or ""
    return GroupView(row.group_id, "streams", row.group_state, assignor, coordinator, members)


def _tasks(role: str, has: Sequence[TaskIds], wanted: Sequence[TaskIds]) -> list[TaskView]:
    """The tasks of one role that a member has, and those that it is to get."""
    has_now, is_to_have = (
        {(one.subtopology_id, index) for one in listed for index in one.partitions}
        for listed in (has, wanted)
    )
    return [
        TaskView(
            *task,
            role,
            "to come" if task not in has_now else "has" if task in is_to_have else "gives back",
        )
        for task in sorted(has_now | is_to_have)
    ]


def view_of_classic(row: DescribedGroup, coordinator: int) -> GroupView:
    """A described group of the classic protocol."""
    members = [
        MemberView(
            member.member_id,
            member.client_id,
            member.client_host,
            _assigned(member.member_assignment) if row.protocol_type == "consumer" else [],
        )
        for member in row.members
    ]
    return GroupView(
        row.group_id, "classic", row.group_state, row.protocol_data, coordinator, members
    )


def _assigned(assignment: bytes) -> list[TopicPartition]:
    """The partitions in a classic member's assignment; none if it is something else."""
    version = int.from_bytes(assignment[:_VERSION_BYTES], signed=True)
    if version < 0 or len(assignment) < _VERSION_BYTES:
        return []
    try:
        read = decoder(ConsumerProtocolAssignment, min(version, _NEWEST_ASSIGNMENT))
        topics = read(assignment, _VERSION_BYTES)[0].assigned_partitions
    except MalformedRequest:
        return []
    return [TopicPartition(row.topic, index) for row in topics for index in row.partitions]


def _raise_error(number: int, message: str | None, group: str) -> None:
    if number:
        raise KafkaError(ErrorCode(number), message or f"group {group}")
