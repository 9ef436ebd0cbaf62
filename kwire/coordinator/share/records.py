"""The records of share groups in ``__consumer_offsets`` (KIP-932), in Kafka's formats.

Format: as in ``kwire.coordinator.records``: a key of an int16 type and fields, a value of an int16
version (0 in all of these) and fields, a null value for a tombstone. Each class is the record's
fields, named as Kafka names them; keys are followed by their values.

Source: GroupCoordinatorRecordHelpers and the schemas of Kafka 4.4.
"""

from kwire.coordinator.records import CoordinatorRecord, new_record
from kwire.protocol.types import Nested, Schema, array, int8, int32, int64, string, uuid

MEMBER_METADATA_TYPE = 10
METADATA_TYPE = 11
TARGET_ASSIGNMENT_METADATA_TYPE = 12
TARGET_ASSIGNMENT_MEMBER_TYPE = 13
CURRENT_MEMBER_ASSIGNMENT_TYPE = 14
STATE_PARTITION_METADATA_TYPE = 15


class ShareGroupMemberMetadataKey(Schema, versions=(0, 0), flexible=None):
    """A member of a share group."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Schema, versions=(0, 0), flexible=0):
    """A member's description of itself."""

    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataKey(Schema, versions=(0, 0), flexible=None):
    """A share group."""

    group_id: str = string()


class ShareGroupMetadataValue(Schema, versions=(0, 0), flexible=0):
    """The group's epoch, and the hash of its topics."""

    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Schema, versions=(0, 0), flexible=None):
    """A share group."""

    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Schema, versions=(0, 0), flexible=0):
    """The epoch of the target assignment, and when it was made."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Schema, versions=(0, 0), flexible=None):
    """A member of a share group."""

    group_id: str = string()
    member_id: str = string()


class TopicPartition(Nested):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupTargetAssignmentMemberValue(Schema, versions=(0, 0), flexible=0):
    """The partitions that a member is to get."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ShareGroupCurrentMemberAssignmentKey(Schema, versions=(0, 0), flexible=None):
    """A member of a share group."""

    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Nested):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupCurrentMemberAssignmentValue(Schema, versions=(0, 0), flexible=0):
    """The partitions that a member has now, with its epochs and its state."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataKey(Schema, versions=(0, 0), flexible=None):
    """A share group."""

    group_id: str = string()


class TopicPartitionsInfo(Nested):
    """Partitions of one topic, by id and name."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Nested):
    """A topic, by id and name."""

    topic_id: bytes = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Schema, versions=(0, 0), flexible=0):
    """The partitions whose share state is being initialized or exists; topics being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)


WRITTEN: tuple[tuple[type[Schema], int], ...] = (
    (ShareGroupMemberMetadataKey, 0),
    (ShareGroupMemberMetadataValue, 0),
    (ShareGroupMetadataKey, 0),
    (ShareGroupMetadataValue, 0),
    (ShareGroupTargetAssignmentMetadataKey, 0),
    (ShareGroupTargetAssignmentMetadataValue, 0),
    (ShareGroupTargetAssignmentMemberKey, 0),
    (ShareGroupTargetAssignmentMemberValue, 0),
    (ShareGroupCurrentMemberAssignmentKey, 0),
    (ShareGroupCurrentMemberAssignmentValue, 0),
    (ShareGroupStatePartitionMetadataKey, 0),
    (ShareGroupStatePartitionMetadataValue, 0),
)
"""The schemas of this module, and the versions in which they are written."""


def metadata(group_id: str, value: ShareGroupMetadataValue | None) -> CoordinatorRecord:
    """The record of a group, or its tombstone."""
    return new_record(METADATA_TYPE, ShareGroupMetadataKey(group_id=group_id), value)


def member_metadata(
    group_id: str, member_id: str, value: ShareGroupMemberMetadataValue | None
) -> CoordinatorRecord:
    """The record of a member, or its tombstone."""
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return new_record(MEMBER_METADATA_TYPE, key, value)


def target_assignment_metadata(
    group_id: str, value: ShareGroupTargetAssignmentMetadataValue | None
) -> CoordinatorRecord:
    """The record of a target assignment's epoch, or its tombstone."""
    key = ShareGroupTargetAssignmentMetadataKey(group_id=group_id)
    return new_record(TARGET_ASSIGNMENT_METADATA_TYPE, key, value)


def target_assignment_member(
    group_id: str, member_id: str, value: ShareGroupTargetAssignmentMemberValue | None
) -> CoordinatorRecord:
    """The record of a member's target, or its tombstone."""
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return new_record(TARGET_ASSIGNMENT_MEMBER_TYPE, key, value)


def current_member_assignment(
    group_id: str, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None
) -> CoordinatorRecord:
    """The record of a member's partitions, or its tombstone."""
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return new_record(CURRENT_MEMBER_ASSIGNMENT_TYPE, key, value)


def state_partition_metadata(
    group_id: str, value: ShareGroupStatePartitionMetadataValue | None
) -> CoordinatorRecord:
    """The record of the partitions that have a share state, or its tombstone."""
    key = ShareGroupStatePartitionMetadataKey(group_id=group_id)
    return new_record(STATE_PARTITION_METADATA_TYPE, key, value)
