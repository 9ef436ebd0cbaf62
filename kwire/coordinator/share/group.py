"""A share group: its members, the target of each member, and the partitions that have a state.

States: Empty without members, otherwise Stable. The partitions of a group are shared: several
members may have one, so no member waits for another.

This module only keeps the state; ``ShareUpdate`` changes a copy. All state comes from records,
except the timers, the heartbeat interval, and what ``Looked`` holds.

Source: ShareGroup and ModernGroup of Kafka 4.4.
"""

from kwire.coordinator.consumer.heartbeat_interval import HeartbeatInterval
from kwire.coordinator.consumer.layered_dict import LayeredDict
from kwire.coordinator.consumer.member import Partitions
from kwire.coordinator.consumer.timers import GroupTimers
from kwire.coordinator.group import EMPTY_STATE, Committer, GroupType
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.share.member import NO_PARTITIONS, ShareMember
from kwire.coordinator.share.records import (
    current_member_assignment,
    member_metadata,
    metadata,
    state_partition_metadata,
    target_assignment_member,
    target_assignment_metadata,
)
from kwire.coordinator.share.state_topics import StateTopics
from kwire.errors import ErrorCode, KafkaError

STABLE_STATE = "Stable"

SHARE_PROTOCOL_TYPE = "share"

FIRST_EPOCH = 1
"""The epoch of a group, and of its target, before the first member joins."""


class Looked:
    """What a group has looked at last, so that a heartbeat without news doesn't look again.

    ``revision`` is that of the topics. ``asked_again_ms`` says for topics with a state that was
    asked for when it is asked for again, if there is no answer.
    """

    __slots__ = ("asked_again_ms", "revision", "states")

    def __init__(self) -> None:
        self.revision = -1
        self.states: StateTopics | None = None
        self.asked_again_ms: dict[bytes, int] = {}


class ShareGroup:
    """One group; ``subscriptions`` counts the members with the same subscription."""

    kind = GroupType.SHARE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.members: LayeredDict[str, ShareMember] = LayeredDict()
        self.subscriptions: dict[tuple[str, ...], int] = {}
        self.targets: LayeredDict[str, Partitions] = LayeredDict()
        self.states = StateTopics()
        self.timers = GroupTimers()
        self.heartbeat_interval = HeartbeatInterval()
        self.looked = Looked()
        self.scheduled_ms: int | None = None

    def copy(self) -> "ShareGroup":
        """A copy for an update; it shares what doesn't come from records with the original."""
        group = ShareGroup(self.group_id)
        group.epoch, group.metadata_hash = self.epoch, self.metadata_hash
        group.target_epoch = self.target_epoch
        group.target_timestamp_ms = self.target_timestamp_ms
        group.members, group.targets = self.members.copy(), self.targets.copy()
        group.subscriptions = dict(self.subscriptions)
        group.states = self.states
        group.timers, group.heartbeat_interval = self.timers, self.heartbeat_interval
        group.looked = self.looked
        return group

    # Changes by records

    def put_member(self, member: ShareMember) -> None:
        """Add a member, or replace it by its next state."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._uncount(old)
        self.members[member.member_id] = member
        self.subscriptions[member.topics] = self.subscriptions.get(member.topics, 0) + 1

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._uncount(member)

    def _uncount(self, member: ShareMember) -> None:
        self.subscriptions[member.topics] -= 1
        if not self.subscriptions[member.topics]:
            del self.subscriptions[member.topics]

    # Questions about the group

    @property
    def state_name(self) -> str:
        """Kafka's name of the group's state."""
        return STABLE_STATE if self.members else EMPTY_STATE

    @property
    def protocol_type_name(self) -> str:
        """The protocol type that ListGroups shows."""
        return SHARE_PROTOCOL_TYPE

    @property
    def may_expire(self) -> bool:
        """Never: a share group commits no offsets, and stays until it is deleted."""
        return False

    @property
    def has_nothing_to_share(self) -> bool:
        """Whether no member has a target, or is about to get one: no heartbeat brings any news."""
        is_assigned = self.epoch == self.target_epoch and not self.states.initializing
        return is_assigned and not any(self.targets.values())

    def target_of(self, member_id: str) -> Partitions:
        """The partitions that a member is to have."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def subscribed_topics(self) -> frozenset[str]:
        """The names of the topics to which any member subscribes."""
        return frozenset().union(*self.subscriptions)

    def member(self, member_id: str) -> ShareMember:
        """The member with this id; KafkaError (UNKNOWN_MEMBER_ID)."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    # Offsets, which a share group doesn't commit

    def check_commit(self, committer: Committer, now_ms: int) -> None:
        """KafkaError (GROUP_ID_NOT_FOUND): offsets are those of consumers."""
        raise self._is_no_consumer_group()

    def check_commit_of(self, committer: Committer, topic_id: bytes, partition: int) -> None:
        """KafkaError (GROUP_ID_NOT_FOUND): offsets are those of consumers."""
        raise self._is_no_consumer_group()

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow it: the group has no offsets, like a group that doesn't exist."""

    def check_offset_delete(self) -> None:
        """KafkaError (GROUP_ID_NOT_FOUND): offsets are those of consumers."""
        raise self._is_no_consumer_group()

    def _is_no_consumer_group(self) -> KafkaError:
        text = f"Group {self.group_id} is not a consumer group."
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)

    def offset_age_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time of the commit, which was another group's of the same id."""
        return commit_timestamp_ms

    # The end

    def check_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP) while the group has members."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group with its members."""
        group_id, ids = self.group_id, list(self.members)
        return [
            *(current_member_assignment(group_id, member_id, None) for member_id in ids),
            *(target_assignment_member(group_id, member_id, None) for member_id in ids),
            target_assignment_metadata(group_id, None),
            *(member_metadata(group_id, member_id, None) for member_id in ids),
            state_partition_metadata(group_id, None),
            metadata(group_id, None),
        ]

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of the group."""
        return self.timers.next_deadline_ms()
