"""The state that groups have in common whose partitions the coordinator assigns: all but classic.

Rules:

- Members send heartbeats. A group's epoch counts its changes. Its target says what each member is
  to have, as of the target's epoch; a member takes its target at its own pace.
- All state comes from records, except the timers, the heartbeat interval, and what a kind of group
  keeps besides. A class of this module only keeps state; ``PlannedChange`` changes a copy.
- A new kind of group has: its group (this class), how its records are applied (``replaying``), its
  changes (``PlannedChange``, ``ModernChanges``), and its heartbeats (``ModernGroups``).

Source: ModernGroup of Kafka 4.4.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from kwire.coordinator.consumer.heartbeat_interval import HeartbeatInterval
from kwire.coordinator.consumer.layered_dict import LayeredDict
from kwire.coordinator.consumer.timers import GroupTimers
from kwire.coordinator.group import GroupType
from kwire.coordinator.modern_records import ModernRecords
from kwire.coordinator.records import CoordinatorRecord
from kwire.errors import ErrorCode, KafkaError

JOINING_EPOCH = 0
"""The member epoch of a heartbeat that joins the group; with an epoch below, a member leaves."""

LEAVING_EPOCH = -1

STATIC_LEAVING_EPOCH = -2
"""The epoch with which a static member leaves for a while, and which it has until it is back."""

FIRST_EPOCH = 1
"""The epoch of a group before the first member joins."""


class ModernMember(Protocol):
    """A member, which never changes: a change makes a new one."""

    @property
    def member_id(self) -> str:
        """The member's id."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of the target that the member has."""
        ...

    def description(self) -> Any:
        """The member's description in the form of its record."""
        ...

    def assignment(self) -> Any:
        """What the member has, in the form of its record."""
        ...

    def with_description(self, value: Any) -> Self:
        """The member as a record describes it."""
        ...

    def with_assignment(self, value: Any) -> Self:
        """The member with what a record says that it has."""
        ...

    def without_assignment(self) -> Self:
        """The member as it was before its first assignment."""
        ...


M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")


class ModernGroup(ABC, Generic[M, T]):
    """One group of members ``M`` with targets ``T``.

    ``subscriptions`` counts the members with the same subscription: a group has few, however many
    members it has.
    """

    kind: ClassVar[GroupType]
    records: ClassVar[ModernRecords]
    no_target: T
    """The target of a member that is to have nothing."""
    UNASSIGNED_EPOCH: ClassVar[int]
    """The epoch of the target before the first assignment."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = self.UNASSIGNED_EPOCH
        self.target_timestamp_ms = 0
        self.members: LayeredDict[str, M] = LayeredDict()
        self.subscriptions: dict[Any, int] = {}
        self.targets: LayeredDict[str, T] = LayeredDict()
        self.timers = GroupTimers()
        self.heartbeat_interval = HeartbeatInterval()
        self.scheduled_ms: int | None = None

    def copy(self) -> Self:
        """A copy for an update; it shares what doesn't come from records with the original."""
        group = type(self)(self.group_id)
        group.epoch, group.metadata_hash = self.epoch, self.metadata_hash
        group.target_epoch = self.target_epoch
        group.target_timestamp_ms = self.target_timestamp_ms
        group.members, group.targets = self.members.copy(), self.targets.copy()
        group.subscriptions = dict(self.subscriptions)
        group.timers, group.heartbeat_interval = self.timers, self.heartbeat_interval
        return group

    # What each kind of group says of its members

    @staticmethod
    @abstractmethod
    def new_member(member_id: str) -> M:
        """A member that has neither described itself nor got anything."""

    @staticmethod
    @abstractmethod
    def subscription_of(member: M) -> Any:
        """What a member subscribes to; it can be hashed."""

    @staticmethod
    @abstractmethod
    def target_record(group_id: str, member_id: str, target: T) -> CoordinatorRecord:
        """The record of a member's target."""

    @staticmethod
    @abstractmethod
    def target_from_record(value: Any) -> T:
        """The target that a record holds."""

    def target_of(self, member_id: str) -> T:
        """What a member is to have."""
        return self.targets.get(member_id, self.no_target)

    # Changes by records

    def take_metadata(self, value: Any) -> None:
        """Take over the record of the group."""
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def put_member(self, member: M) -> None:
        """Add a member, or replace it by its next state."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._uncount(old)
        self.members[member.member_id] = member
        self._count(member)

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._uncount(member)

    def _count(self, member: M) -> None:
        """Note what the group knows about all members together."""
        subscription = self.subscription_of(member)
        self.subscriptions[subscription] = self.subscriptions.get(subscription, 0) + 1

    def _uncount(self, member: M) -> None:
        """Take back what ``_count`` has noted."""
        subscription = self.subscription_of(member)
        assert self.subscriptions[subscription] > 0, (self.group_id, subscription)
        self.subscriptions[subscription] -= 1
        if not self.subscriptions[subscription]:
            del self.subscriptions[subscription]

    # Questions about the group

    @abstractmethod
    def subscribed_topics(self) -> frozenset[str]:
        """The names of the topics to which any member subscribes."""

    @property
    @abstractmethod
    def has_nothing_to_share(self) -> bool:
        """Whether no heartbeat brings any news: nobody has, or is to get, a partition."""

    @property
    def is_settled(self) -> bool:
        """Whether no member is on its way to its target."""
        return self.has_nothing_to_share

    def member(self, member_id: str) -> M:
        """The member with this id; KafkaError (UNKNOWN_MEMBER_ID)."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def static_member(self, instance_id: str | None) -> M | None:
        """The static member of an instance; only some kinds of groups have static members."""
        return None

    def offset_age_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time of the commit, from which the offset's age counts."""
        return commit_timestamp_ms

    def check_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP) while the group has members."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group with its members."""
        return self.tombstones_with(self.members)

    def tombstones_with(self, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        """The records that delete the group and these members."""
        return [
            *self.records.member_tombstones(self.group_id, member_ids),
            self.records.target_assignment_metadata(self.group_id, None),
            *self.own_tombstones(),
            self.records.metadata(self.group_id, None),
        ]

    def own_tombstones(self) -> list[CoordinatorRecord]:
        """The tombstones of records that only groups of this kind have."""
        return []

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of the group."""
        return self.timers.next_deadline_ms()
