"""A share group: its members, the target of each member, and the partitions that have a state.

States: Empty without members, otherwise Stable. The partitions of a group are shared: several
members may have one, so no member waits for another.

This module only keeps the state; ``ShareUpdate`` changes a copy. All state comes from records,
except the timers, the heartbeat interval, and what ``Looked`` holds.

Source: ShareGroup and ModernGroup of Kafka 4.4.
"""

from typing import Self

from kwire.coordinator.consumer.member import Partitions, target_from_record
from kwire.coordinator.group import EMPTY_STATE, Committer, GroupType
from kwire.coordinator.modern_group import FIRST_EPOCH, ModernGroup
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.share.member import NO_PARTITIONS, ShareMember, target_record
from kwire.coordinator.share.records import (
    RECORDS,
    state_partition_metadata,
)
from kwire.coordinator.share.state_topics import StateTopics
from kwire.errors import ErrorCode, KafkaError

STABLE_STATE = "Stable"

SHARE_PROTOCOL_TYPE = "share"


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


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """One group."""

    kind = GroupType.SHARE
    records = RECORDS
    UNASSIGNED_EPOCH = FIRST_EPOCH

    new_member = ShareMember
    no_target = NO_PARTITIONS
    target_record = staticmethod(target_record)
    target_from_record = staticmethod(target_from_record)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.states = StateTopics()
        self.looked = Looked()

    def copy(self) -> Self:
        """A copy for an update; it shares what doesn't come from records with the original."""
        group = super().copy()
        group.states, group.looked = self.states, self.looked
        return group

    @staticmethod
    def subscription_of(member: ShareMember) -> tuple[str, ...]:
        """The names of the topics to which a member subscribes."""
        return member.topics

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

    def subscribed_topics(self) -> frozenset[str]:
        """The names of the topics to which any member subscribes."""
        return frozenset().union(*self.subscriptions)

    # Offsets, which a share group doesn't commit

    def check_commit(self, committer: Committer, now_ms: int) -> None:
        """KafkaError (GROUP_ID_NOT_FOUND): offsets are those of consumers."""
        raise self._is_no_consumer_group()

    def check_commit_of(
        self, committer: Committer, topic: str, topic_id: bytes, partition: int
    ) -> None:
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

    def own_tombstones(self) -> list[CoordinatorRecord]:
        """The tombstone of the partitions' states."""
        return [state_partition_metadata(self.group_id, None)]
