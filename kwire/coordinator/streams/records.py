"""The records of streams groups in ``__consumer_offsets`` (KIP-1071), in Kafka's formats.

Format: as in ``kwire.coordinator.modern_records``. Each class is a value's fields, named as Kafka
names them. A group's topology has a record of its own. Type 18 was never released.

Source: StreamsCoordinatorRecordHelpers and the schemas of Kafka 4.4.
"""

from kwire.coordinator.modern_records import (
    GroupRecord,
    MemberRecord,
    ModernRecords,
    TargetAssignmentMetadataValue,
)
from kwire.protocol.types import (
    Nested,
    Schema,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)


class KeyValue(Nested):
    """A name and a value."""

    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Schema, versions=(0, 0), flexible=0):
    """The group's epoch, a hash of its topics' metadata, and the epochs of its topologies: of the
    one that was checked, and of those whose descriptions were stored or refused.
    """

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0)
    last_assignment_configs: list[KeyValue] | None = array(KeyValue, nullable=True, tag=1)
    stored_description_topology_epoch: int = int32(default=-1, tag=2)
    failed_description_topology_epoch: int = int32(default=-1, tag=3)


class Endpoint(Nested):
    """The address at which the member's state can be queried."""

    host: str = string()
    port: int = uint16()


class StreamsGroupMemberMetadataValue(Schema, versions=(0, 0), flexible=0):
    """A member's description of itself."""

    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable=True, default=None)
    client_tags: list[KeyValue] = array(KeyValue)


class TaskIds(Nested):
    """Tasks of one subtopology."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class StreamsGroupTargetAssignmentMemberValue(Schema, versions=(0, 0), flexible=0):
    """The target of a member, in tasks."""

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class OwnedTaskIds(Nested):
    """Tasks of one subtopology, and the epochs in which they were assigned."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable=True, tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Schema, versions=(0, 0), flexible=0):
    """The tasks of a member."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[OwnedTaskIds] = array(OwnedTaskIds)
    standby_tasks: list[OwnedTaskIds] = array(OwnedTaskIds)
    warmup_tasks: list[OwnedTaskIds] = array(OwnedTaskIds)
    active_tasks_pending_revocation: list[OwnedTaskIds] = array(OwnedTaskIds)
    standby_tasks_pending_revocation: list[OwnedTaskIds] = array(OwnedTaskIds)
    warmup_tasks_pending_revocation: list[OwnedTaskIds] = array(OwnedTaskIds)


class TopicInfo(Nested):
    """A topic, by id and name."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class CopartitionGroup(Nested):
    """Topics that need the same number of partitions."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Nested):
    """A part of the topology that runs as a whole."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupTopologyValue(Schema, versions=(0, 0), flexible=0):
    """The topology of the group."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


metadata = GroupRecord(17, StreamsGroupMetadataValue)
member_metadata = MemberRecord(19, StreamsGroupMemberMetadataValue)
target_assignment_metadata = GroupRecord(20, TargetAssignmentMetadataValue)
target_assignment_member = MemberRecord(21, StreamsGroupTargetAssignmentMemberValue)
current_member_assignment = MemberRecord(22, StreamsGroupCurrentMemberAssignmentValue)
topology = GroupRecord(23, StreamsGroupTopologyValue)

RECORDS = ModernRecords(
    *(metadata, member_metadata, target_assignment_metadata),
    *(target_assignment_member, current_member_assignment),
)
