"""Applies the records of consumer groups to the state, in normal work as at loading.

Rules:

- The first record of a group that isn't a tombstone creates the group. The tombstone of the group's
  own record removes it, whatever other records are still there.
- If the group is of another kind by now, its records as a consumer group are old and ignored.

Source: the replay methods of GroupMetadataManager of Kafka 4.3.
"""

from collections.abc import Callable, MutableMapping
from typing import TypeAlias

from kwire.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from kwire.coordinator.consumer.member import (
    ConsumerMember,
    Description,
    target_from_record,
)
from kwire.coordinator.consumer.records import (
    CURRENT_MEMBER_ASSIGNMENT_TYPE,
    MEMBER_METADATA_TYPE,
    METADATA_TYPE,
    PARTITION_METADATA_TYPE,
    REGULAR_EXPRESSION_TYPE,
    TARGET_ASSIGNMENT_MEMBER_TYPE,
    TARGET_ASSIGNMENT_METADATA_TYPE,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
    MemberMetadataValue,
    MetadataValue,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    parse_key,
)
from kwire.coordinator.group import Group
from kwire.coordinator.records import WrittenTarget, parse_value
from kwire.record.records import Record

_Replay: TypeAlias = Callable[[ConsumerGroup, bytes, bytes | None], None]


def replay_into(
    groups: MutableMapping[str, Group], kind: int, record: Record, *, loading: bool
) -> None:
    """Apply a record; MalformedRequest if the record is damaged.

    At loading later records win, because a group may have been of another kind before.
    """
    assert record.key is not None
    group_id = parse_key(GroupKey, record.key).group_id
    known = groups.get(group_id)
    if isinstance(known, ConsumerGroup):
        group = known
    elif record.value is not None and (known is None or loading):
        group = ConsumerGroup(group_id)
    else:
        return
    _REPLAYS[kind](group, record.key, record.value)
    if kind == METADATA_TYPE and record.value is None:
        del groups[group_id]
    elif group is not known:
        groups[group_id] = group


def take_target_into(groups: MutableMapping[str, Group], written: WrittenTarget) -> None:
    """Apply a target that was just written, as ``replay_into`` of its record would."""
    group = groups.setdefault(written.group, ConsumerGroup(written.group))
    if isinstance(group, ConsumerGroup):
        group.targets[written.member_id] = written.partitions


def _metadata(group: ConsumerGroup, key: bytes, packed: bytes | None) -> None:
    if packed is not None:
        value = parse_value(MetadataValue, packed)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _partition_metadata(group: ConsumerGroup, key: bytes, packed: bytes | None) -> None:
    group.has_partition_metadata = packed is not None


def _member_metadata(group: ConsumerGroup, key: bytes, packed: bytes | None) -> None:
    member_id = parse_key(MemberKey, key).member_id
    if packed is None:
        group.remove_member(member_id)
        return
    about = Description.from_record(parse_value(MemberMetadataValue, packed))
    member = group.members.get(member_id) or ConsumerMember(member_id)
    group.put_member(member._replace(about=about))


def _target_assignment_metadata(group: ConsumerGroup, key: bytes, packed: bytes | None) -> None:
    value = TargetAssignmentMetadataValue()
    if packed is not None:
        value = parse_value(TargetAssignmentMetadataValue, packed)
    group.target_epoch = value.assignment_epoch
    group.target_timestamp_ms = value.assignment_timestamp


def _target_assignment_member(group: ConsumerGroup, key: bytes, packed: bytes | None) -> None:
    member_id = parse_key(MemberKey, key).member_id
    if packed is None:
        group.targets.pop(member_id, None)
    else:
        value = parse_value(TargetAssignmentMemberValue, packed)
        group.targets[member_id] = target_from_record(value)


def _current_member_assignment(group: ConsumerGroup, key: bytes, packed: bytes | None) -> None:
    member_id = parse_key(MemberKey, key).member_id
    member = group.members.get(member_id)
    if packed is not None:
        value = parse_value(CurrentMemberAssignmentValue, packed)
        group.put_member((member or ConsumerMember(member_id)).with_record(value))
    elif member is not None:
        group.put_member(member.without_assignment())


def _regular_expression(group: ConsumerGroup, key: bytes, packed: bytes | None) -> None:
    regex = parse_key(RegularExpressionKey, key).regular_expression
    if packed is None:
        group.regexes.pop(regex, None)
        return
    value = parse_value(RegularExpressionValue, packed)
    group.regexes[regex] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


_REPLAYS: dict[int, _Replay] = {
    METADATA_TYPE: _metadata,
    PARTITION_METADATA_TYPE: _partition_metadata,
    MEMBER_METADATA_TYPE: _member_metadata,
    TARGET_ASSIGNMENT_METADATA_TYPE: _target_assignment_metadata,
    TARGET_ASSIGNMENT_MEMBER_TYPE: _target_assignment_member,
    CURRENT_MEMBER_ASSIGNMENT_TYPE: _current_member_assignment,
    REGULAR_EXPRESSION_TYPE: _regular_expression,
}
