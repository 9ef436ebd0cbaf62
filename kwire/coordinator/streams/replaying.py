"""Applies the records of streams groups to the state; the rules are those of the frame.

A group's topology has a record of its own, whose tombstone comes after that of the group.
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
from kwire.coordinator.streams.group import StreamsGroup, Topology
from kwire.coordinator.streams.records import (
    CURRENT_MEMBER_ASSIGNMENT_TYPE,
    MEMBER_METADATA_TYPE,
    METADATA_TYPE,
    TARGET_ASSIGNMENT_MEMBER_TYPE,
    TARGET_ASSIGNMENT_METADATA_TYPE,
    TOPOLOGY_TYPE,
)
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


def _topology(
    group: StreamsGroup, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None
) -> None:
    group.topology = None if value is None else Topology(value)


STREAMS_GROUPS = Replaying(
    StreamsGroup,
    {
        METADATA_TYPE: Replay(StreamsGroupMetadataKey, StreamsGroupMetadataValue, replay_metadata),
        MEMBER_METADATA_TYPE: Replay(
            StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue, replay_member_metadata
        ),
        TARGET_ASSIGNMENT_METADATA_TYPE: Replay(
            StreamsGroupTargetAssignmentMetadataKey,
            StreamsGroupTargetAssignmentMetadataValue,
            replay_target_metadata,
        ),
        TARGET_ASSIGNMENT_MEMBER_TYPE: Replay(
            StreamsGroupTargetAssignmentMemberKey,
            StreamsGroupTargetAssignmentMemberValue,
            replay_target_member,
        ),
        CURRENT_MEMBER_ASSIGNMENT_TYPE: Replay(
            StreamsGroupCurrentMemberAssignmentKey,
            StreamsGroupCurrentMemberAssignmentValue,
            replay_current_assignment,
        ),
        TOPOLOGY_TYPE: Replay(StreamsGroupTopologyKey, StreamsGroupTopologyValue, _topology),
    },
)
