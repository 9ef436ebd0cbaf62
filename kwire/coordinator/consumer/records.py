"""The records of consumer groups in ``__consumer_offsets``, in Kafka's formats.

Format: as in ``kwire.coordinator.records``: a key of an int16 type and fields, a value of an int16
version (0 in all of these) and fields, a null value for a tombstone. Kafka 4.0 wrote a record (type
4) that described the topics of a subscription. Now a hash of the topics is in the group's record.
kwire reads the old record only to delete it.

Source: GroupCoordinatorRecordHelpers and the schemas of Kafka 4.3.
"""

from collections.abc import Iterable
from struct import Struct
from typing import TypeVar

from kwire.coordinator.records import CoordinatorRecord, new_record
from kwire.protocol.codec import decoder
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

_M = TypeVar("_M", bound=Schema)

METADATA_TYPE = 3
PARTITION_METADATA_TYPE = 4
MEMBER_METADATA_TYPE = 5
TARGET_ASSIGNMENT_METADATA_TYPE = 6
TARGET_ASSIGNMENT_MEMBER_TYPE = 7
CURRENT_MEMBER_ASSIGNMENT_TYPE = 8
REGULAR_EXPRESSION_TYPE = 16

CONSUMER_GROUP_TYPES = frozenset(
    {
        METADATA_TYPE,
        PARTITION_METADATA_TYPE,
        MEMBER_METADATA_TYPE,
        TARGET_ASSIGNMENT_METADATA_TYPE,
        TARGET_ASSIGNMENT_MEMBER_TYPE,
        CURRENT_MEMBER_ASSIGNMENT_TYPE,
        REGULAR_EXPRESSION_TYPE,
    }
)
"""The types of every record of a consumer group."""

_INT16 = Struct(">h")


class GroupKey(Schema, versions=(0, 0), flexible=None):
    """The key of a record of which each group has one."""

    group_id: str = string()


class MemberKey(Schema, versions=(0, 0), flexible=None):
    """The key of a record of which each member has one."""

    group_id: str = string()
    member_id: str = string()


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


class TargetAssignmentMetadataValue(Schema, versions=(0, 0), flexible=0):
    """The epoch of a group's target assignment, and when it was computed."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


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
    (GroupKey, 0),
    (MemberKey, 0),
    (RegularExpressionKey, 0),
    (MetadataValue, 0),
    (MemberMetadataValue, 0),
    (TargetAssignmentMetadataValue, 0),
    (TargetAssignmentMemberValue, 0),
    (CurrentMemberAssignmentValue, 0),
    (RegularExpressionValue, 0),
)
"""The schemas of this module, and the versions in which they are written."""


def metadata(group_id: str, value: MetadataValue | None) -> CoordinatorRecord:
    """The record of a group, or its tombstone."""
    return new_record(METADATA_TYPE, GroupKey(group_id=group_id), value)


def member_metadata(
    group_id: str, member_id: str, value: MemberMetadataValue | None
) -> CoordinatorRecord:
    """The record of a member, or its tombstone."""
    return new_record(
        MEMBER_METADATA_TYPE, MemberKey(group_id=group_id, member_id=member_id), value
    )


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """The tombstone of a record in which an older Kafka described the topics."""
    return new_record(PARTITION_METADATA_TYPE, GroupKey(group_id=group_id), None)


def target_assignment_metadata(
    group_id: str, value: TargetAssignmentMetadataValue | None
) -> CoordinatorRecord:
    """The record of a target assignment's epoch, or its tombstone."""
    return new_record(TARGET_ASSIGNMENT_METADATA_TYPE, GroupKey(group_id=group_id), value)


def target_assignment_member(
    group_id: str, member_id: str, value: TargetAssignmentMemberValue | None
) -> CoordinatorRecord:
    """The record of a member's target, or its tombstone."""
    key = MemberKey(group_id=group_id, member_id=member_id)
    return new_record(TARGET_ASSIGNMENT_MEMBER_TYPE, key, value)


def current_member_assignment(
    group_id: str, member_id: str, value: CurrentMemberAssignmentValue | None
) -> CoordinatorRecord:
    """The record of a member's partitions, or its tombstone."""
    key = MemberKey(group_id=group_id, member_id=member_id)
    return new_record(CURRENT_MEMBER_ASSIGNMENT_TYPE, key, value)


def regular_expression(
    group_id: str, pattern: str, value: RegularExpressionValue | None
) -> CoordinatorRecord:
    """The record of a regular expression's topics, or its tombstone."""
    key = RegularExpressionKey(group_id=group_id, regular_expression=pattern)
    return new_record(REGULAR_EXPRESSION_TYPE, key, value)


def member_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    """The tombstones of members: their partitions, their targets, their descriptions."""
    ids = list(member_ids)
    return [
        make(group_id, member_id, None)
        for make in (current_member_assignment, target_assignment_member, member_metadata)
        for member_id in ids
    ]


def parse_key(schema: type[_M], key: bytes) -> _M:
    """The key of a record without its type; MalformedRequest for any other bytes."""
    return decoder(schema, 0)(key, _INT16.size)[0]
