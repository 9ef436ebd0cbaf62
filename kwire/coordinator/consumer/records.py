"""The records of consumer groups in ``__consumer_offsets``, in Kafka's formats.

Format: as in ``kwire.coordinator.modern_records``. Kafka 4.0 wrote a record (type 4) that described
the topics of a subscription. Now a hash of the topics is in the group's record. kwire reads the old
record only to delete it.

Source: GroupCoordinatorRecordHelpers and the schemas of Kafka 4.3.
"""

from kwire.coordinator.modern_records import (
    GroupRecord,
    MemberRecord,
    ModernRecords,
    RecordType,
    TargetAssignmentMetadataValue,
)
from kwire.coordinator.records import CoordinatorRecord, new_record
from kwire.protocol.types import (
    Nested,
    Schema,
    array,
    binary,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)


class RegularExpressionKey(Schema, versions=(0, 0), flexible=None):
    """The key of a record with the topics that a group's regular expression matches."""

    group_id: str = string()
    regular_expression: str = string()


class MetadataValue(Schema, versions=(0, 0), flexible=0):
    """A group: its epoch, and a hash of the topics its members subscribe to."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ClassicProtocol(Nested):
    """An assignor that a member of the classic protocol offers, and its subscription for it."""

    name: str = string()
    metadata: bytes = binary()


class ClassicMemberMetadata(Nested):
    """Data of members that use the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class MemberMetadataValue(Schema, versions=(0, 0), flexible=0):
    """A member as it describes itself."""

    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable=True, default=None)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable=True, tag=0
    )


class TargetPartitions(Nested):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class TargetAssignmentMemberValue(Schema, versions=(0, 0), flexible=0):
    """The target of a member."""

    topic_partitions: list[TargetPartitions] = array(TargetPartitions)


class OwnedPartitions(Nested):
    """Partitions of one topic, and the epoch at which the member got each of them."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable=True, default=None, tag=0)


class CurrentMemberAssignmentValue(Schema, versions=(0, 0), flexible=0):
    """A member's partitions, and the partitions that it still has to give back."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[OwnedPartitions] = array(OwnedPartitions)
    partitions_pending_revocation: list[OwnedPartitions] = array(OwnedPartitions)


class RegularExpressionValue(Schema, versions=(0, 0), flexible=0):
    """The topics that a regular expression matches, as of a revision of the metadata and a time."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


WRITTEN: tuple[tuple[type[Schema], int], ...] = (
    (RegularExpressionKey, 0),
    (MetadataValue, 0),
    (MemberMetadataValue, 0),
    (TargetAssignmentMemberValue, 0),
    (CurrentMemberAssignmentValue, 0),
    (RegularExpressionValue, 0),
)
"""The schemas of this module, and the versions in which they are written."""


class RegularExpressionRecord(RecordType[RegularExpressionValue]):
    """The record of a regular expression to which members subscribe."""

    key = RegularExpressionKey

    def __call__(
        self, group_id: str, pattern: str, value: RegularExpressionValue | None
    ) -> CoordinatorRecord:
        """The record of an expression's topics, or its tombstone."""
        key = RegularExpressionKey(group_id=group_id, regular_expression=pattern)
        return new_record(self.number, key, value)


metadata = GroupRecord(3, MetadataValue)
partition_metadata = GroupRecord[Schema](4, None)
member_metadata = MemberRecord(5, MemberMetadataValue)
target_assignment_metadata = GroupRecord(6, TargetAssignmentMetadataValue)
target_assignment_member = MemberRecord(7, TargetAssignmentMemberValue)
current_member_assignment = MemberRecord(8, CurrentMemberAssignmentValue)
regular_expression = RegularExpressionRecord(16, RegularExpressionValue)

RECORDS = ModernRecords(
    *(metadata, member_metadata, target_assignment_metadata),
    *(target_assignment_member, current_member_assignment),
)
CONSUMER_GROUP_TYPES = frozenset(
    one.number for one in (*RECORDS, partition_metadata, regular_expression)
)
"""The types of every record of a consumer group."""
