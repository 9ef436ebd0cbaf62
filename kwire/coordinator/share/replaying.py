"""Applies the records of share groups to the state; the rules are those of the frame.

A group may begin with the record of its partitions' states, because an administrator may set
offsets before the first member joins.
"""

from kwire.coordinator.replaying import (
    Replay,
    Replaying,
    replay_current_assignment,
    replay_member_metadata,
    replay_metadata,
    replay_target_member,
    replay_target_metadata,
)
from kwire.coordinator.share.group import ShareGroup
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
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from kwire.coordinator.share.state_topics import StateTopics


def _state_partition_metadata(
    group: ShareGroup,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    group.states = StateTopics() if value is None else StateTopics.from_record(value)


SHARE_GROUPS = Replaying(
    ShareGroup,
    {
        METADATA_TYPE: Replay(ShareGroupMetadataKey, ShareGroupMetadataValue, replay_metadata),
        MEMBER_METADATA_TYPE: Replay(
            ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, replay_member_metadata
        ),
        TARGET_ASSIGNMENT_METADATA_TYPE: Replay(
            ShareGroupTargetAssignmentMetadataKey,
            ShareGroupTargetAssignmentMetadataValue,
            replay_target_metadata,
        ),
        TARGET_ASSIGNMENT_MEMBER_TYPE: Replay(
            ShareGroupTargetAssignmentMemberKey,
            ShareGroupTargetAssignmentMemberValue,
            replay_target_member,
        ),
        CURRENT_MEMBER_ASSIGNMENT_TYPE: Replay(
            ShareGroupCurrentMemberAssignmentKey,
            ShareGroupCurrentMemberAssignmentValue,
            replay_current_assignment,
        ),
        STATE_PARTITION_METADATA_TYPE: Replay(
            ShareGroupStatePartitionMetadataKey,
            ShareGroupStatePartitionMetadataValue,
            _state_partition_metadata,
        ),
    },
)
