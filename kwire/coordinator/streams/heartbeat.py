"""StreamsGroupHeartbeat: checks of requests, a member's description, and parts of the answer.

Source: GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.streamsGroupHeartbeat of Kafka 4.4, and what a broker of Kafka 4.4.0 answers.
"""

from collections.abc import Iterable, Mapping

from kwire.coordinator.heartbeat_checks import check_filled, fenced, invalid
from kwire.coordinator.joining import Client
from kwire.coordinator.modern_group import JOINING_EPOCH, STATIC_LEAVING_EPOCH
from kwire.coordinator.streams.assignors.spec import MemberTasks, Task, Tasks
from kwire.coordinator.streams.group import StreamsGroup, TaskOffsets
from kwire.coordinator.streams.member import (
    Description,
    StreamsMember,
)
from kwire.coordinator.streams.records import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from kwire.coordinator.streams.topology.configured import ConfiguredTopology, StatusCode
from kwire.coordinator.streams.update import StreamsUpdate
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages import streams_group_heartbeat as messages
from kwire.protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
)


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError for an invalid request: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    subtopologies = request.topology.subtopologies if request.topology else ()
    if any(one.source_topic_regex for one in subtopologies):
        raise invalid("Regular expressions for source topics are not supported yet.")
    check_filled(
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    )
    if request.member_epoch == JOINING_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVING_EPOCH:
        raise invalid(
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
        )
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(one is None for one in roles) and any(one is not None for one in roles):
        raise invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOINING_EPOCH and request.topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise invalid("Topology must be non-null when (re-)joining.")
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}.",
                )
    if request.topology.epoch < 0:
        raise invalid("Topology epoch must be non-negative.")


def check_epoch(member: StreamsMember, epoch: int, reported: MemberTasks | None) -> None:
    """Raise KafkaError (FENCED_MEMBER_EPOCH) unless a member may continue at an epoch.

    A member with the previous epoch may have missed an answer, if it has no task that it wasn't
    given.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    is_behind = epoch == member.previous_epoch and epoch < member.epoch
    if not is_behind or reported is None or not member.assigned.contains(reported):
        raise fenced("streams", member, epoch)


# What a request says


def described(
    about: Description, request: StreamsGroupHeartbeatRequest, client: Client
) -> Description:
    """A member as its client describes it; a field that a request leaves out stays as it was."""
    endpoint = request.user_endpoint
    keeps_endpoint = endpoint is None and request.member_epoch != JOINING_EPOCH
    tags = request.client_tags
    return Description(
        instance_id=_or(request.instance_id, about.instance_id),
        rack_id=_or(request.rack_id, about.rack_id),
        client_id=client.client_id,
        client_host=client.host,
        rebalance_timeout_ms=(
            about.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms
        ),
        topology_epoch=request.topology.epoch if request.topology else about.topology_epoch,
        process_id=about.process_id if request.process_id is None else request.process_id,
        user_endpoint=(
            about.user_endpoint
            if keeps_endpoint
            else (endpoint.host, endpoint.port)
            if endpoint
            else None
        ),
        client_tags=(
            about.client_tags
            if tags is None
            else tuple(sorted({tag.key: tag.value for tag in tags}.items()))
        ),
    )


def _or(value: str | None, other: str | None) -> str | None:
    return other if value is None else value


def reported_tasks(request: StreamsGroupHeartbeatRequest) -> MemberTasks | None:
    """The tasks that a member says it has; None if it doesn't say."""
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(one is None for one in roles):
        return None
    return MemberTasks(*(_by_subtopology(listed or ()) for listed in roles))


def _by_subtopology(listed: Iterable[TaskIds]) -> Tasks:
    # A client may name a subtopology once for each task: a set that grows is not copied.
    found: dict[str, set[int]] = {}
    for one in listed:
        found.setdefault(one.subtopology_id, set()).update(one.partitions)
    return {subtopology_id: frozenset(tasks) for subtopology_id, tasks in found.items()}


def take_task_offsets(
    group: StreamsGroup,
    member_id: str,
    request: StreamsGroupHeartbeatRequest,
    topology: ConfiguredTopology,
) -> None:
    """Keep what a member says of its stores, as far as these are of tasks that there are.

    Raises KafkaError (INVALID_REQUEST) if a task is there twice.
    """
    if request.task_offsets is None and request.task_end_offsets is None:
        return
    known = group.unrecorded.task_offsets.get(member_id, TaskOffsets())
    group.unrecorded.task_offsets[member_id] = TaskOffsets(
        _offsets(request.task_offsets, known.offsets, topology),
        _offsets(request.task_end_offsets, known.end_offsets, topology),
    )


def _offsets(
    listed: list[TaskOffset] | None, before: Mapping[Task, int], topology: ConfiguredTopology
) -> Mapping[Task, int]:
    if listed is None:
        return before
    found: dict[Task, int] = {}
    for one in listed:
        task = one.subtopology_id, one.partition
        if task in found:
            raise invalid(
                "Task offsets contain a duplicate entry for subtopology "
                f"{one.subtopology_id} and partition {one.partition}."
            )
        found[task] = one.offset
    return {
        (subtopology_id, partition): offset
        for (subtopology_id, partition), offset in found.items()
        if subtopology_id in topology.subtopologies
        and 0 <= partition < topology.subtopologies[subtopology_id].tasks
    }


def topology_value(topology: messages.Topology) -> StreamsGroupTopologyValue:
    """A topology in the form of its record, with its topics in the order of their names."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            _subtopology(one)
            for one in sorted(topology.subtopologies, key=lambda one: one.subtopology_id)
        ],
    )


def _subtopology(given: messages.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=given.subtopology_id,
        source_topics=list(given.source_topics),
        source_topic_regex=list(given.source_topic_regex),
        state_changelog_topics=[_topic(topic) for topic in given.state_changelog_topics],
        repartition_sink_topics=list(given.repartition_sink_topics),
        repartition_source_topics=[_topic(topic) for topic in given.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(
                source_topics=list(one.source_topics),
                source_topic_regex=list(one.source_topic_regex),
                repartition_source_topics=list(one.repartition_source_topics),
            )
            for one in given.copartition_groups
        ],
    )


def _topic(given: messages.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=given.name,
        partitions=given.partitions,
        replication_factor=given.replication_factor,
        topic_configs=[
            KeyValue(key=config.key, value=config.value) for config in given.topic_configs
        ],
    )


# What the answer says


def show_tasks(response: StreamsGroupHeartbeatResponse, member: StreamsMember) -> None:
    """Tell a member its tasks."""
    response.active_tasks = _listed(member.assigned.active)
    response.standby_tasks = _listed(member.assigned.standby)
    response.warmup_tasks = _listed(member.assigned.warmup)


def _listed(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]


def statuses(
    update: StreamsUpdate, member: StreamsMember, known: ConfiguredTopology, api_version: int
) -> list[Status]:
    """What a member is to know about its group besides its tasks."""
    group, found = update.group, []
    assert group.topology is not None, group.group_id
    if member.about.topology_epoch < group.topology.epoch:
        text = (
            f"The member's topology epoch {member.about.topology_epoch} is behind the group's "
            f"topology epoch {group.topology.epoch}."
        )
        found.append((StatusCode.STALE_TOPOLOGY, text))
    delay = _delay(update)
    if delay is not None:
        found.append((StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed {delay}."))
    if known.error is not None:
        found.append(known.error)
    if group.unrecorded.shutdown_by is not None:
        text = (
            f"Streams group member {group.unrecorded.shutdown_by} encountered a fatal error and "
            "requested a shutdown for the entire application."
        )
        found.append((StatusCode.SHUTDOWN_APPLICATION, text))
    missing = set(update.settings.rack_aware_tags) - {key for key, _ in member.about.client_tags}
    if missing and api_version >= 1:
        named = ", ".join(tag for tag in update.settings.rack_aware_tags if tag in missing)
        text = (
            f"Missing required client tags for rack-aware standby assignment: [{named}]. Configure "
            "them via 'client.tag.<tagKey>' in your Streams config."
        )
        found.append((StatusCode.MISSING_CLIENT_TAGS, text))
    return [Status(status_code=code, status_detail=text) for code, text in found]


def _delay(update: StreamsUpdate) -> str | None:
    """Why the target isn't that of the group's epoch; None if it is."""
    if update.is_delayed:
        return "due to the configured initial rebalance delay"
    if update.group.epoch <= update.group.target_epoch:
        return None
    if update.group.timers.assigning is not None:
        return "until it is computed"
    return "due to the configured assignment interval"
