"""Applies the records of modern groups to their state, in normal work as at loading.

Rules:

- The first record of a group that isn't a tombstone creates the group. The tombstone of the group's
  own record removes it, whatever other records are still there.
- If the group is of another kind by now, its records as a group of this kind are old and ignored.
  At loading later records win, because a group may have been of another kind before.
- Five records are alike in all kinds of groups (``ModernRecords``); the functions of this module
  apply them. A kind adds functions for records of its own.

Source: the replay methods of GroupMetadataManager of Kafka 4.4.
"""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Generic, TypeAlias, TypeVar

from kwire.coordinator.group import Group
from kwire.coordinator.modern_group import ModernGroup
from kwire.coordinator.modern_records import GroupKey, MemberKey, RecordType, parse_key
from kwire.coordinator.records import parse_value
from kwire.record.records import Record

_G = TypeVar("_G", bound=ModernGroup[Any, Any])


Apply: TypeAlias = Callable[[Any, Any, Any], None]
"""Applies a record: ``apply(group, key, value)``, where a tombstone has None."""


class Replaying(Generic[_G]):
    """The records of one kind of group, by type."""

    def __init__(self, new_group: type[_G], others: Mapping[RecordType[Any], Apply]) -> None:
        self._new_group = new_group
        alike: tuple[Apply, ...] = (
            *(replay_metadata, replay_member_metadata, replay_target_metadata),
            *(replay_target_member, replay_current_assignment),
        )
        applied = {**dict(zip(new_group.records, alike, strict=True)), **others}
        self._types = {one.number: (one, apply) for one, apply in applied.items()}
        assert len(self._types) == len(applied), new_group  # one would be replayed as the other

    def replay_into(
        self, groups: MutableMapping[str, Group], kind: int, record: Record, *, loading: bool
    ) -> None:
        """Apply a record; MalformedRequest if the record is damaged."""
        assert record.key is not None
        record_type, apply = self._types[kind]
        group_id = parse_key(GroupKey, record.key).group_id
        group: Any = groups.get(group_id)
        is_new = not isinstance(group, self._new_group)
        if is_new:
            if record.value is None or not (group is None or loading):
                return
            group = self._new_group(group_id)
        value: Any = record.value
        if value is not None and record_type.value is not None:
            value = parse_value(record_type.value, value)
        assert group.group_id == group_id, (group.group_id, group_id)
        apply(group, parse_key(record_type.key, record.key), value)
        if apply is replay_metadata and value is None:
            del groups[group_id]
        elif is_new:
            groups[group_id] = group


def replay_metadata(group: ModernGroup[Any, Any], key: GroupKey, value: Any) -> None:
    """Apply the record of a group; its tombstone ends the group."""
    if value is not None:
        group.take_metadata(value)


def replay_member_metadata(group: ModernGroup[Any, Any], key: MemberKey, value: Any) -> None:
    """Apply the record of a member's description; its tombstone ends the membership."""
    if value is None:
        group.remove_member(key.member_id)
    else:
        member = group.members.get(key.member_id) or group.new_member(key.member_id)
        group.put_member(member.with_description(value))


def replay_target_metadata(group: ModernGroup[Any, Any], key: GroupKey, value: Any) -> None:
    """Apply the record of the target's epoch."""
    if value is None:
        group.target_epoch, group.target_timestamp_ms = group.UNASSIGNED_EPOCH, 0
    else:
        group.target_epoch = value.assignment_epoch
        group.target_timestamp_ms = value.assignment_timestamp


def replay_target_member(group: ModernGroup[Any, Any], key: MemberKey, value: Any) -> None:
    """Apply the record of a member's target."""
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = group.target_from_record(value)


def replay_current_assignment(group: ModernGroup[Any, Any], key: MemberKey, value: Any) -> None:
    """Apply the record of what a member has."""
    member = group.members.get(key.member_id)
    if value is not None:
        member = member or group.new_member(key.member_id)
        group.put_member(member.with_assignment(value))
    elif member is not None:
        group.put_member(member.without_assignment())
