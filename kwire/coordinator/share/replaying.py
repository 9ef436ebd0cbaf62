"""Applies the records of share groups to the state; the rules are those of the frame.

A group may begin with the record of its partitions' states, because an administrator may set
offsets before the first member joins.
"""

from kwire.coordinator.modern_records import GroupKey
from kwire.coordinator.replaying import Replaying
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.records import (
    ShareGroupStatePartitionMetadataValue,
    state_partition_metadata,
)
from kwire.coordinator.share.state_topics import StateTopics


def _state_partition_metadata(
    group: ShareGroup, key: GroupKey, value: ShareGroupStatePartitionMetadataValue | None
) -> None:
    group.states = StateTopics() if value is None else StateTopics.from_record(value)


SHARE_GROUPS = Replaying(ShareGroup, {state_partition_metadata: _state_partition_metadata})
