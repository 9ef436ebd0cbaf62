"""StreamsGroupDescribe: topologies, members and tasks of streams groups (KIP-1071).

Behavior: an unknown group, or a group of another kind, is GROUP_ID_NOT_FOUND. The numbers of
partitions of internal topics are those that were decided, once the topology is ready. Descriptions
of topologies (KIP-1331) are never there: see StreamsGroupTopologyDescriptionUpdate.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kwire.coordinator.streams.assignors.spec import MemberTasks, Task
from kwire.coordinator.streams.group import StreamsGroup, TaskOffsets
from kwire.coordinator.streams.member import StreamsMember
from kwire.coordinator.streams.topology.configured import (
    DEFAULT_REPLICATION_FACTOR,
    ConfiguredTopology,
    InternalTopic,
)
from kwire.coordinator.streams_group_records import StreamsGroupTopologyValue
from kwire.coordinator.streams_group_records import TopicInfo as WrittenTopic
from kwire.errors import KafkaError
from kwire.handlers.lib.context import GROUP_OPERATIONS, NOT_ASKED, RequestContext
from kwire.handlers.lib.rights import DESCRIBE, FAILED, GROUP, TOPIC, Serve, each, operations, right
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.streams_groups import check_streams_protocol
from kwire.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 50
"""The bytes that each part of a description has without its names and numbers."""


async def handle(
    request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    """Describe every group that the request names; one that it names twice is described once."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    work = context.work
    known: dict[str, tuple[DescribedGroup, int]] = {}
    groups = []
    for group_id in request.group_ids:
        await give_way(work)
        if group_id not in known:
            group = _description_or_error(group_id, operations, context)
            known[group_id] = group, BYTES + sum(map(_size_bytes, group.members))
        group, size_bytes = known[group_id]
        work.answer(size_bytes)
        groups.append(group)
    return StreamsGroupDescribeResponse(groups=groups)


def _size_bytes(member: Member) -> int:
    """The approximate size of a member in the response."""
    roles = (
        tasks
        for one in (member.assignment, member.target_assignment)
        for tasks in (one.active_tasks, one.standby_tasks, one.warmup_tasks)
    )
    return BYTES + sum(BYTES + 4 * len(one.partitions) for tasks in roles for one in tasks)


def _description_or_error(
    group_id: str, operations: int, context: RequestContext
) -> DescribedGroup:
    try:
        check_streams_protocol(context.broker)
        streams = context.broker.groups.coordinator(group_id).groups.streams
        group = _describe(streams.group(group_id), streams.assignor_of(group_id))
        group.authorized_operations = operations
    except KafkaError as error:
        group = DescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.message or None
        )
    return group


def _describe(group: StreamsGroup, assignor: str) -> DescribedGroup:
    configured = group.unrecorded.configured
    topology: Topology | None = None
    if configured is not None and configured.result.ready:
        topology = _configured(configured.result)
    elif group.topology is not None:
        topology = _written(group.topology.value)
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=topology,
        members=[_member(group, member) for member in group.members.values()],
        assignor_name=assignor,
    )


def _configured(topology: ConfiguredTopology) -> Topology:
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(one.source_topics),
                repartition_sink_topics=sorted(one.repartition_sink_topics),
                state_changelog_topics=_internal(one.state_changelog_topics.values()),
                repartition_source_topics=_internal(one.repartition_source_topics.values()),
            )
            for subtopology_id, one in sorted(topology.subtopologies.items())
        ],
    )


def _internal(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=(
                0
                if topic.replication_factor == DEFAULT_REPLICATION_FACTOR
                else topic.replication_factor
            ),
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs.items()],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _written(topology: StreamsGroupTopologyValue) -> Topology:
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=one.subtopology_id,
                source_topics=sorted(one.source_topics),
                repartition_sink_topics=sorted(one.repartition_sink_topics),
                state_changelog_topics=_given(one.state_changelog_topics),
                repartition_source_topics=_given(one.repartition_source_topics),
            )
            for one in sorted(topology.subtopologies, key=lambda one: one.subtopology_id)
        ],
    )


def _given(topics: Iterable[WrittenTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=one.key, value=one.value) for one in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    about = member.about
    offsets = group.unrecorded.task_offsets.get(member.member_id, TaskOffsets())
    endpoint = about.user_endpoint
    target = group.targets.get(member.member_id, MemberTasks())
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=about.instance_id,
        rack_id=about.rack_id,
        client_id=about.client_id,
        client_host=about.client_host,
        topology_epoch=about.topology_epoch,
        process_id=about.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in about.client_tags],
        task_offsets=_offsets(offsets.offsets),
        task_end_offsets=_offsets(offsets.end_offsets),
        assignment=Assignment(
            active_tasks=_tasks(member.assigned.active),
            standby_tasks=_tasks(member.assigned.standby),
            warmup_tasks=_tasks(member.assigned.warmup),
        ),
        target_assignment=Assignment(
            active_tasks=_tasks(target.active),
            standby_tasks=_tasks(target.standby),
            warmup_tasks=_tasks(target.warmup),
        ),
    )


def _tasks(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]


def _offsets(offsets: Mapping[Task, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=subtopology_id, partition=partition, offset=offset)
        for (subtopology_id, partition), offset in sorted(offsets.items())
    ]


@right("on every topic of its topology")
async def _describe_topics(
    request: StreamsGroupDescribeRequest, rights: "Authorization", serve: Serve
) -> Any:
    response: StreamsGroupDescribeResponse = await serve(request)
    with_topics, _ = await rights.split(lambda group: group.topology is not None, response.groups)
    for group in with_topics:
        await give_way(rights.context.work)
        names = _topics_of(group)
        if names - await rights.allowed_names(DESCRIBE, TOPIC, names, tells_denied=False):
            group.error_code = FAILED[TOPIC]
            group.error_message = (
                "The described group uses topics that the client is not authorized to describe."
            )
            group.group_state, group.group_epoch, group.assignment_epoch = "", 0, 0
            group.members, group.topology, group.assignor_name = [], None, None
    return response


def _topics_of(group: DescribedGroup) -> set[str]:
    """The names of all topics in the description of a group."""
    names: set[str] = set()
    assert group.topology is not None, group.group_id
    for one in group.topology.subtopologies or ():
        names.update(one.source_topics, one.repartition_sink_topics)
        internal = (*one.repartition_source_topics, *one.state_changelog_topics)
        names.update(topic.name for topic in internal)
    return names


RIGHTS = (
    each("group_ids", DESCRIBE, GROUP, is_first=True),
    _describe_topics,
    operations("groups", GROUP, named="group_id", told="authorized_operations"),
)
