"""Builds and parses the records of streams groups in ``__consumer_offsets`` (KIP-1071).

Format: as in ``kwire.coordinator.records``: a key of an int16 type and fields, a value of an int16
version (0 in all of these) and fields, a null value for a tombstone. The fields are in
``kwire.coordinator.streams_group_records``. Type 18 was never released.

Source: StreamsCoordinatorRecordHelpers and the schemas of Kafka 4.4.
"""

from struct import Struct

from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from kwire.protocol.codec import encode
from kwire.protocol.types import Schema

METADATA_TYPE = 17
MEMBER_METADATA_TYPE = 19
TARGET_ASSIGNMENT_METADATA_TYPE = 20
TARGET_ASSIGNMENT_MEMBER_TYPE = 21
CURRENT_MEMBER_ASSIGNMENT_TYPE = 22
TOPOLOGY_TYPE = 23

_INT16 = Struct(">h")
_VALUE_VERSION = 0


def metadata(group_id: str, value: StreamsGroupMetadataValue | None) -> CoordinatorRecord:
    """The record of a group, or its tombstone."""
    return _record(METADATA_TYPE, StreamsGroupMetadataKey(group_id=group_id), value)


def member_metadata(
    group_id: str, member_id: str, value: StreamsGroupMemberMetadataValue | None
) -> CoordinatorRecord:
    """The record of a member's description, or its tombstone."""
    key = StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return _record(MEMBER_METADATA_TYPE, key, value)


def target_assignment_metadata(
    group_id: str, value: StreamsGroupTargetAssignmentMetadataValue | None
) -> CoordinatorRecord:
    """The record of the target's epoch, or its tombstone."""
    key = StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)
    return _record(TARGET_ASSIGNMENT_METADATA_TYPE, key, value)


def target_assignment_member(
    group_id: str, member_id: str, value: StreamsGroupTargetAssignmentMemberValue | None
) -> CoordinatorRecord:
    """The record of a member's target, or its tombstone."""
    key = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(TARGET_ASSIGNMENT_MEMBER_TYPE, key, value)


def current_member_assignment(
    group_id: str, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue | None
) -> CoordinatorRecord:
    """The record of a member's tasks, or its tombstone."""
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return _record(CURRENT_MEMBER_ASSIGNMENT_TYPE, key, value)


def topology(group_id: str, value: StreamsGroupTopologyValue | None) -> CoordinatorRecord:
    """The record of a group's topology, or its tombstone."""
    return _record(TOPOLOGY_TYPE, StreamsGroupTopologyKey(group_id=group_id), value)


def _record(kind: int, key: Schema, value: Schema | None) -> CoordinatorRecord:
    packed = None
    if value is not None:
        packed = _INT16.pack(_VALUE_VERSION) + encode(value, _VALUE_VERSION)
    return CoordinatorRecord(_INT16.pack(kind) + encode(key, 0), packed)
