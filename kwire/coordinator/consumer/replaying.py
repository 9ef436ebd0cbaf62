"""Applies the records of consumer groups to the state; the rules are those of the frame."""

from collections.abc import MutableMapping

from kwire.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
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
)
from kwire.coordinator.group import Group
from kwire.coordinator.records import WrittenTarget
from kwire.coordinator.replaying import (
    Replay,
    Replaying,
    replay_current_assignment,
    replay_member_metadata,
    replay_metadata,
    replay_target_member,
    replay_target_metadata,
)


def take_target_into(groups: MutableMapping[str, Group], written: WrittenTarget) -> None:
    """Apply a target that was just written, as ``CONSUMER_GROUPS`` would apply its record."""
    group = groups.setdefault(written.group, ConsumerGroup(written.group))
    if isinstance(group, ConsumerGroup):
        group.targets[written.member_id] = written.partitions


def _partition_metadata(group: ConsumerGroup, key: GroupKey, value: bytes | None) -> None:
    group.has_partition_metadata = value is not None


def _regular_expression(
    group: ConsumerGroup, key: RegularExpressionKey, value: RegularExpressionValue | None
) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        group.regexes[key.regular_expression] = resolved


CONSUMER_GROUPS = Replaying(
    ConsumerGroup,
    {
        METADATA_TYPE: Replay(GroupKey, MetadataValue, replay_metadata),
        PARTITION_METADATA_TYPE: Replay(GroupKey, None, _partition_metadata),
        MEMBER_METADATA_TYPE: Replay(MemberKey, MemberMetadataValue, replay_member_metadata),
        TARGET_ASSIGNMENT_METADATA_TYPE: Replay(
            GroupKey, TargetAssignmentMetadataValue, replay_target_metadata
        ),
        TARGET_ASSIGNMENT_MEMBER_TYPE: Replay(
            MemberKey, TargetAssignmentMemberValue, replay_target_member
        ),
        CURRENT_MEMBER_ASSIGNMENT_TYPE: Replay(
            MemberKey, CurrentMemberAssignmentValue, replay_current_assignment
        ),
        REGULAR_EXPRESSION_TYPE: Replay(
            RegularExpressionKey, RegularExpressionValue, _regular_expression
        ),
    },
)
