"""StreamsGroupDescribe: topologies, members and tasks of streams groups (KIP-1071).

Behavior: an unknown group, or a group of another kind, is GROUP_ID_NOT_FOUND. The numbers of
partitions of internal topics are those that were decided, once the topology is ready. Descriptions
of topologies (KIP-1331) are never there: see StreamsGroupTopologyDescriptionUpdate.
"""

from collections.abc import Iterable, Iterator, Mapping

from kwire.broker.broker import Broker
from kwire.coordinator.streams.assignors.spec import MemberTasks, Task
from kwire.coordinator.streams.group import StreamsGroup, TaskOffsets
from kwire.coordinator.streams.member import StreamsMember
from kwire.coordinator.streams.records import StreamsGroupTopologyValue
from kwire.coordinator.streams.records import TopicInfo as WrittenTopic
from kwire.coordinator.streams.topology.configured import (
    DEFAULT_REPLICATION_FACTOR,
    ConfiguredTopology,
    InternalTopic,
)
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.modern_groups import BYTES, describe_groups, described_topics
from kwire.handlers.lib.rights import DESCRIBE, GROUP, each, operations
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


async def handle(
    request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    """Describe every group that the request names; one that it names twice is described once."""
    sizes = _member_bytes, _group_bytes
    groups = await describe_groups(request, context, DescribedGroup, _described, *sizes)
    return StreamsGroupDescribeResponse(groups=groups)


def _group_bytes(group: DescribedGroup) -> int:
    """The approximate size of a group's topology in the response."""
    size_bytes = BYTES
    for one in group.topology.subtopologies or () if group.topology else ():
        names = (*one.source_topics, *one.repartition_sink_topics)
        size_bytes += BYTES + len(one.subtopology_id) + sum(BYTES + len(name) for name in names)
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            size_bytes += BYTES + len(topic.name) + _pairs_bytes(topic.topic_configs)
    return size_bytes


def _member_bytes(member: Member) -> int:
    """The approximate size of a member in the response."""
    roles = (
        tasks
        for one in (member.assignment, member.target_assignment)
        for tasks in (one.active_tasks, one.standby_tasks, one.warmup_tasks)
    )
    size_bytes = BYTES + len(member.process_id) + _pairs_bytes(member.client_tags)
    size_bytes += sum(
        BYTES + len(one.subtopology_id) + 4 * len(one.partitions)
        for tasks in roles
        for one in tasks
    )
    offsets = (*member.task_offsets, *member.task_end_offsets)
    return size_bytes + sum(BYTES + len(one.subtopology_id) for one in offsets)


def _pairs_bytes(pairs: Iterable[KeyValue]) -> int:
    return sum(BYTES + len(one.key) + len(one.value) for one in pairs)


def _described(group_id: str, broker: Broker) -> tuple[DescribedGroup, Iterable[Member]]:
    check_streams_protocol(broker)
    streams = broker.groups.coordinator(group_id).coordinator.streams
    group = streams.group(group_id)
    now = group.copy()  # the group may change while its members are described
    members = (_member(now, member) for member in now.members.values())
    return _describe(group, streams.assignor_of(group_id)), members


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


def _topics_of(group: DescribedGroup) -> Iterator[Iterable[str]]:
    """The names of all topics in the description of a group."""
    if group.topology is None:
        return
    for one in group.topology.subtopologies or ():
        internal = (*one.repartition_source_topics, *one.state_changelog_topics)
        names = (topic.name for topic in internal)
        yield (*one.source_topics, *one.repartition_sink_topics, *names)


RIGHTS = (
    each("group_ids", DESCRIBE, GROUP, is_first=True),
    described_topics(
        _topics_of,
        "on every topic of its topology",
        "The described group uses topics that the client is not authorized to describe.",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        topology=None,
        assignor_name=None,
    ),
    operations("groups", GROUP, named="group_id", told="authorized_operations"),
)
