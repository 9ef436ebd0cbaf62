"""Applies the records of share groups to the state, in normal work as at loading.

Rules: as in ``kwire.coordinator.consumer.replaying``. A group may begin with the record of its
partitions' states, because an administrator may set offsets before the first member joins.

Source: the replay methods of GroupMetadataManager of Kafka 4.4.
"""

from collections.abc import Callable, MutableMapping
from typing import TypeAlias

from kwire.coordinator.consumer.records import parse_key
from kwire.coordinator.group import Group
from kwire.coordinator.records import parse_value
from kwire.coordinator.share.group import FIRST_EPOCH, ShareGroup
from kwire.coordinator.share.member import ShareMember, target_from_record
from kwire.coordinator.share.records import (
    CURRENT_MEMBER_ASSIGNMENT_TYPE,
    MEMBER_METADATA_TYPE,
    METADATA_TYPE,
    STATE_PARTITION_METADATA_TYPE,
    TARGET_ASSIGNMENT_MEMBER_TYPE,
    TARGET_ASSIGNMENT_METADATA_TYPE,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
)
from kwire.coordinator.share.state_topics import StateTopics
from kwire.record.records import Record

_Replay: TypeAlias = Callable[[ShareGroup, bytes, bytes | None], None]


def replay_into(
    groups: MutableMapping[str, Group], kind: int, record: Record, *, loading: bool
) -> None:
    """Apply a record; MalformedRequest if the record is damaged.

    At loading later records win, because a group may have been of another kind before.
    """
    assert record.key is not None
    group_id = parse_key(ShareGroupMetadataKey, record.key).group_id
    known = groups.get(group_id)
    if isinstance(known, ShareGroup):
        group = known
    elif record.value is not None and (known is None or loading):
        group = ShareGroup(group_id)
    else:
        return
    _REPLAYS[kind](group, record.key, record.value)
    if kind == METADATA_TYPE and record.value is None:
        del groups[group_id]
    elif group is not known:
        groups[group_id] = group


def _metadata(group: ShareGroup, key: bytes, packed: bytes | None) -> None:
    if packed is not None:
        value = parse_value(ShareGroupMetadataValue, packed)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _member_metadata(group: ShareGroup, key: bytes, packed: bytes | None) -> None:
    member_id = parse_key(ShareGroupMemberMetadataKey, key).member_id
    if packed is None:
        group.remove_member(member_id)
        return
    value = parse_value(ShareGroupMemberMetadataValue, packed)
    member = group.members.get(member_id) or ShareMember(member_id)
    group.put_member(member.with_description(value))


def _target_assignment_metadata(group: ShareGroup, key: bytes, packed: bytes | None) -> None:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=FIRST_EPOCH)
    if packed is not None:
        value = parse_value(ShareGroupTargetAssignmentMetadataValue, packed)
    group.target_epoch = value.assignment_epoch
    group.target_timestamp_ms = value.assignment_timestamp


def _target_assignment_member(group: ShareGroup, key: bytes, packed: bytes | None) -> None:
    member_id = parse_key(ShareGroupTargetAssignmentMemberKey, key).member_id
    if packed is None:
        group.targets.pop(member_id, None)
    else:
        value = parse_value(ShareGroupTargetAssignmentMemberValue, packed)
        group.targets[member_id] = target_from_record(value)


def _current_member_assignment(group: ShareGroup, key: bytes, packed: bytes | None) -> None:
    member_id = parse_key(ShareGroupCurrentMemberAssignmentKey, key).member_id
    member = group.members.get(member_id)
    if packed is not None:
        value = parse_value(ShareGroupCurrentMemberAssignmentValue, packed)
        group.put_member((member or ShareMember(member_id)).with_assignment(value))
    elif member is not None:
        group.put_member(member.without_assignment())


def _state_partition_metadata(group: ShareGroup, key: bytes, packed: bytes | None) -> None:
    group.states = StateTopics()
    if packed is not None:
        value = parse_value(ShareGroupStatePartitionMetadataValue, packed)
        group.states = StateTopics.from_record(value)


_REPLAYS: dict[int, _Replay] = {
    METADATA_TYPE: _metadata,
    MEMBER_METADATA_TYPE: _member_metadata,
    TARGET_ASSIGNMENT_METADATA_TYPE: _target_assignment_metadata,
    TARGET_ASSIGNMENT_MEMBER_TYPE: _target_assignment_member,
    CURRENT_MEMBER_ASSIGNMENT_TYPE: _current_member_assignment,
    STATE_PARTITION_METADATA_TYPE: _state_partition_metadata,
}
