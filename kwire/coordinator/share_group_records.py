"""The records of share groups in ``__consumer_offsets`` (KIP-932).

Each class is the record's fields, named as Kafka names them; keys are followed by their values.
"""

from kwire.protocol.types import Nested, Schema, array, int8, int32, int64, string, uuid


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
