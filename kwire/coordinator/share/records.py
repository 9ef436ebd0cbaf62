"""The records of share groups in ``__consumer_offsets`` (KIP-932), in Kafka's formats.

Format: as in ``kwire.coordinator.modern_records``. Each class is a value's fields, named as Kafka
names them. The target of a member is written as that of a member of a consumer group.

Source: GroupCoordinatorRecordHelpers and the schemas of Kafka 4.4.
"""

from kwire.coordinator.consumer.records import TargetAssignmentMemberValue, TargetPartitions
from kwire.coordinator.modern_records import (
    GroupRecord,
    MemberRecord,
    ModernRecords,
    TargetAssignmentMetadataValue,
)
from kwire.protocol.types import Nested, Schema, array, int8, int32, int64, string, uuid


class ShareGroupMemberMetadataValue(Schema, versions=(0, 0), flexible=0):
    """A member's description of itself."""

    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataValue(Schema, versions=(0, 0), flexible=0):
    """The group's epoch, and the hash of its topics."""

    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupCurrentMemberAssignmentValue(Schema, versions=(0, 0), flexible=0):
    """The partitions that a member has now, with its epochs and its state."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TargetPartitions] = array(TargetPartitions)


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


metadata = GroupRecord(11, ShareGroupMetadataValue)
member_metadata = MemberRecord(10, ShareGroupMemberMetadataValue)
target_assignment_metadata = GroupRecord(12, TargetAssignmentMetadataValue)
target_assignment_member = MemberRecord(13, TargetAssignmentMemberValue)
current_member_assignment = MemberRecord(14, ShareGroupCurrentMemberAssignmentValue)
state_partition_metadata = GroupRecord(15, ShareGroupStatePartitionMetadataValue)

RECORDS = ModernRecords(
    *(metadata, member_metadata, target_assignment_metadata),
    *(target_assignment_member, current_member_assignment),
)
