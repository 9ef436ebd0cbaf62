"""Applies the records of consumer groups to the state; the rules are those of the frame."""

from collections.abc import MutableMapping

from kwire.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from kwire.coordinator.consumer.records import (
    RegularExpressionKey,
    RegularExpressionValue,
    partition_metadata,
    regular_expression,
)
from kwire.coordinator.group import Group
from kwire.coordinator.modern_records import GroupKey
from kwire.coordinator.records import WrittenTarget
from kwire.coordinator.replaying import Replaying


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
    {partition_metadata: _partition_metadata, regular_expression: _regular_expression},
)
