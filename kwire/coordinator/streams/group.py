"""A streams group: its members, its topology, the target of each member, and who has which task.

States: Empty without members; NotReady while the cluster's topics aren't as the topology needs
them; Assigning while the target is of an earlier epoch than the group; Reconciling while members
are on their way to the target; otherwise Stable.

This module only keeps the state; ``StreamsUpdate`` changes a copy. All state comes from records,
except the timers, the heartbeat interval, and what ``Unrecorded`` holds.

Source: StreamsGroup and StreamsTopology of Kafka 4.4.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Self

from kwire.coordinator.consumer.layered_dict import LayeredDict
from kwire.coordinator.group import Committer, GroupType
from kwire.coordinator.modern_group import FIRST_EPOCH
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.static_group import StaticGroup
from kwire.coordinator.streams.assignors.spec import MemberTasks, Task, Tasks
from kwire.coordinator.streams.member import (
    NO_TARGET,
    OwnedTasks,
    StreamsMember,
    target_from_record,
    target_record,
)
from kwire.coordinator.streams.reconciliation import Processes
from kwire.coordinator.streams.records import (
    RECORDS,
    StreamsGroupMetadataValue,
    StreamsGroupTopologyValue,
    topology,
)
from kwire.coordinator.streams.topology.configured import ConfiguredTopology
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_heartbeat import EndpointToPartitions

NOT_READY_STATE = "NotReady"

STREAMS_PROTOCOL_TYPE = "streams"

NO_EPOCH = -1
"""The epoch of a topology that there isn't."""

COMMIT_VERSION = 9
"""The first version of OffsetCommit that has member epochs."""

NO_PROCESSES: frozenset[str] = frozenset()


class Topology:
    """The topology of a group; ``value`` is its record, which never changes."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.value = value

    @property
    def epoch(self) -> int:
        """The epoch of the topology, which the application gives it."""
        return self.value.epoch

    @cached_property
    def subtopology_of(self) -> Mapping[str, str]:
        """The subtopology that reads a topic, by the topic's name."""
        found: dict[str, str] = {}
        for one in self.value.subtopologies:
            found |= dict.fromkeys(one.source_topics, one.subtopology_id)
            names = (topic.name for topic in one.repartition_source_topics)
            found |= dict.fromkeys(names, one.subtopology_id)
        return found

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """The names of all topics that have to exist."""
        changelogs = {
            topic.name for one in self.value.subtopologies for topic in one.state_changelog_topics
        }
        return frozenset(self.subtopology_of) | changelogs

    def is_same(self, value: StreamsGroupTopologyValue) -> bool:
        """Whether this is the same topology, in whatever order its subtopologies are listed."""
        mine, other = (
            {one.subtopology_id: one for one in topology.subtopologies}
            for topology in (self.value, value)
        )
        return self.epoch == value.epoch and mine == other


class Configured(NamedTuple):
    """The group's topology as it was compared with the topics of this hash."""

    metadata_hash: int
    result: ConfiguredTopology


class TaskOffsets(NamedTuple):
    """How far a member's stores are, and where the changelogs end: offsets by task."""

    offsets: Mapping[Task, int] = MappingProxyType({})
    end_offsets: Mapping[Task, int] = MappingProxyType({})


class ToldEndpoint(NamedTuple):
    """What the members are told of an endpoint, and what that was made from."""

    endpoint: tuple[str, int]
    assigned: OwnedTasks
    said: EndpointToPartitions


class Unrecorded:
    """What a group knows besides its records; a copy of the group shares it with the original.

    ``revision`` is that of the topics that were looked at last. ``delayed_until_ms`` is the end of
    the initial rebalance delay. ``shutdown_by`` is the member that asked the whole application to
    shut down. ``endpoint_epoch`` counts the changes of what members answer queries about, and
    ``endpoints`` keeps what the members' answers say about each endpoint.
    """

    __slots__ = (
        *("configured", "delayed_until_ms", "endpoint_epoch", "endpoints", "revision"),
        *("shutdown_by", "task_offsets"),
    )

    def __init__(self) -> None:
        self.revision = -1
        self.configured: Configured | None = None
        self.delayed_until_ms: int | None = None
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.endpoints: dict[str, ToldEndpoint] = {}
        self.task_offsets: dict[str, TaskOffsets] = {}

    def forget(self, member_id: str) -> None:
        """Forget a member."""
        self.endpoints.pop(member_id, None)
        self.task_offsets.pop(member_id, None)


class StreamsGroup(StaticGroup[StreamsMember, MemberTasks]):
    """One group; ``runs``, ``stands_by`` and ``warms_up`` are the processes that have a task."""

    kind = GroupType.STREAMS
    records = RECORDS
    UNASSIGNED_EPOCH = FIRST_EPOCH

    new_member = StreamsMember
    no_target = NO_TARGET
    target_record = staticmethod(target_record)
    target_from_record = staticmethod(target_from_record)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_topology_epoch = NO_EPOCH
        self.stored_description_epoch = NO_EPOCH
        self.failed_description_epoch = NO_EPOCH
        self.assignment_configs: Mapping[str, str] = {}
        self.topology: Topology | None = None
        self.runs: LayeredDict[Task, str] = LayeredDict()
        self.stands_by: LayeredDict[Task, frozenset[str]] = LayeredDict()
        self.warms_up: LayeredDict[Task, frozenset[str]] = LayeredDict()
        self.unrecorded = Unrecorded()

    def copy(self) -> Self:
        """A copy for an update; it shares what doesn't come from records with the original."""
        group = super().copy()
        group.validated_topology_epoch = self.validated_topology_epoch
        group.stored_description_epoch = self.stored_description_epoch
        group.failed_description_epoch = self.failed_description_epoch
        group.assignment_configs, group.topology = self.assignment_configs, self.topology
        group.runs, group.stands_by = self.runs.copy(), self.stands_by.copy()
        group.warms_up = self.warms_up.copy()
        group.unrecorded = self.unrecorded
        return group

    @staticmethod
    def subscription_of(member: StreamsMember) -> None:
        """Nothing: all members have the tasks of one topology."""

    # Changes by records

    def take_metadata(self, value: StreamsGroupMetadataValue) -> None:
        """Take over the record of the group."""
        super().take_metadata(value)
        self.validated_topology_epoch = value.validated_topology_epoch
        self.stored_description_epoch = value.stored_description_topology_epoch
        self.failed_description_epoch = value.failed_description_topology_epoch
        self.assignment_configs = {c.key: c.value for c in value.last_assignment_configs or ()}

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        super().remove_member(member_id)
        self.unrecorded.forget(member_id)

    def _count(self, member: StreamsMember) -> None:
        super()._count(member)
        process_id = member.about.process_id
        for owned in (member.assigned, member.revoking):
            for task in owned.iter_active():
                self.runs[task] = process_id
            for tasks, having in ((owned.standby, self.stands_by), (owned.warmup, self.warms_up)):
                for task in iter_tasks(tasks):
                    having[task] = having.get(task, NO_PROCESSES) | {process_id}

    def _uncount(self, member: StreamsMember) -> None:
        super()._uncount(member)
        process_id = member.about.process_id
        for owned in (member.assigned, member.revoking):
            for task in owned.iter_active():
                # A damaged log may say that another process runs the task by now.
                if self.runs.get(task) == process_id:
                    del self.runs[task]
            for tasks, having in ((owned.standby, self.stands_by), (owned.warmup, self.warms_up)):
                for task in iter_tasks(tasks):
                    left = having.get(task, NO_PROCESSES) - {process_id}
                    if left:
                        having[task] = left
                    else:
                        having.pop(task, None)

    # Questions about the group

    @property
    def state_name(self) -> str:
        """Kafka's name of the group's state."""
        topology_epoch = None if self.topology is None else self.topology.epoch
        if self.members and topology_epoch != self.validated_topology_epoch:
            return NOT_READY_STATE
        return super().state_name

    @property
    def protocol_type_name(self) -> str:
        """The protocol type that ListGroups shows."""
        return STREAMS_PROTOCOL_TYPE

    @property
    def has_nothing_to_share(self) -> bool:
        """Whether no member has a task or a target: then no heartbeat brings any news."""
        is_assigned = self.epoch == self.target_epoch
        return is_assigned and not self.runs and not any(t.active for t in self.targets.values())

    @property
    def processes(self) -> Processes:
        """The processes that have a task."""
        return Processes(
            lambda subtopology_id, partition: self.runs.get((subtopology_id, partition)),
            lambda s, partition: self.stands_by.get((s, partition), NO_PROCESSES),
            lambda s, partition: self.warms_up.get((s, partition), NO_PROCESSES),
        )

    def subscribed_topics(self) -> frozenset[str]:
        """The names of the topics that the tasks read, while there are members."""
        if self.topology is None or not self.members:
            return frozenset()
        return frozenset(self.topology.subtopology_of)

    # Offsets

    def check_commit(self, committer: Committer, now_ms: int) -> None:
        """Check that a client may commit at all; ``check_commit_of`` checks one partition.

        Raises KafkaError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, and for an epoch that the member
        hasn't reached STALE_MEMBER_EPOCH.
        """
        if self._is_outsider(committer):
            return
        member = self.member(committer.member_id)
        if committer.api_version < COMMIT_VERSION and not committer.is_transactional:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {COMMIT_VERSION} or above must be used by members using the "
                "streams group protocol",
            )
        if committer.generation > member.epoch:
            raise _stale(
                f"Received member epoch {committer.generation} is newer than current member epoch "
                f"{member.epoch}."
            )

    def _is_outsider(self, committer: Committer) -> bool:
        """Whether a client commits that claims to be no member, and may do so."""
        if committer.generation < 0 and not self.members:
            return True
        is_nobody = not committer.member_id and committer.instance_id is None
        return committer.is_transactional and committer.generation == -1 and is_nobody

    def check_commit_of(
        self, committer: Committer, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """Check that a member may commit this partition: at an older epoch, only if it had it then.

        Raises KafkaError (STALE_MEMBER_EPOCH).
        """
        if self._is_outsider(committer):
            return
        member = self.member(committer.member_id)
        if committer.generation == member.epoch:
            return
        if self.topology is None:
            raise _stale("Topology is not available for offset commit validation.")
        subtopology_id = self.topology.subtopology_of.get(topic)
        if subtopology_id is None:
            raise _stale(f"Topic {topic} is not in the topology.")
        task = f"{subtopology_id}-{partition}"
        epoch = member.assignment_epoch(subtopology_id, partition)
        if epoch is None:
            raise _stale(f"Task {task} is not assigned or pending revocation for member.")
        if committer.generation < epoch:
            raise _stale(
                f"Received member epoch {committer.generation} is older than assignment epoch "
                f"{epoch} for task {task}."
            )

    # The end

    def tombstones_with(self, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        """The records that delete the group and these members."""
        return [*super().tombstones_with(member_ids), topology(self.group_id, None)]


def iter_tasks(tasks: Tasks) -> Iterable[Task]:
    """Tasks one by one."""
    for subtopology_id, partitions in tasks.items():
        for partition in partitions:
            yield subtopology_id, partition


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)
