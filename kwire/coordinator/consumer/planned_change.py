"""A planned change of a group whose partitions the coordinator assigns.

Rules:

- The change never touches the group itself: its first record copies the group. The group changes
  when the records have been written and are replayed.
- Two assignments are at least the assignment interval apart, so that members who join one after the
  other share one assignment (KIP-1263).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kwire.coordinator.consumer.topics import Topics, hash_topics
from kwire.coordinator.effects import Turn
from kwire.coordinator.modern_group import M, ModernGroup, ModernMember
from kwire.coordinator.modern_records import TargetAssignmentMetadataValue
from kwire.coordinator.records import CoordinatorRecord


class ModernSettings(Protocol):
    """The settings that a group has, whatever its kind; times in ms."""

    @property
    def session_timeout_ms(self) -> int:
        """The time without a heartbeat after which a member is removed."""
        ...

    @property
    def heartbeat_interval_ms(self) -> int:
        """The time between two heartbeats of a member while its group is settled."""
        ...

    @property
    def assignment_interval_ms(self) -> int:
        """The least time between two assignments."""
        ...


class Question(Protocol):
    """A group's question to an assignor; it holds only data that doesn't change."""

    @property
    def is_quick(self) -> bool:
        """Whether the answer takes no longer than one or two ms."""
        ...

    @property
    def member_ids(self) -> Iterable[str]:
        """The members that are assigned to."""
        ...

    def answer_with_records(self, group_id: str) -> Any:
        """The assignment, with what a thread can do ahead for its records."""
        ...


G = TypeVar("G", bound=ModernGroup[Any, Any])
S = TypeVar("S", bound=ModernSettings)
Q = TypeVar("Q", bound=Question)


class PlannedChange(ABC, Generic[G, S, Q]):
    """One operation on one group; ``group`` is the group as it will be, ``original`` as it is.

    ``is_changed`` says that ``group`` is a changed copy of the original. ``removed`` are the ids of
    members that were removed. ``to_assign`` is an assignment that takes too long to be done here.
    """

    def __init__(self, group: G, turn: Turn, topics: Topics, settings: S) -> None:
        self.original = self.group = group
        self.turn = turn
        self.topics = topics
        self.settings = settings
        self.is_changed = False
        self.removed: tuple[str, ...] = ()
        self.to_assign: Q | None = None

    def _write(self, *records: CoordinatorRecord) -> G:
        """Add records; return the copy of the group to change along with them."""
        if not self.is_changed:
            self.group = self.group.copy()
            self.is_changed = True
        self.turn.effects.records += records
        return self.group

    def note(self, text: str) -> None:
        """Note what happens to the group."""
        self.turn.note(self.group.group_id, text, for_debug=len(self.group.members) <= 1)

    # Members

    def describe(self, member: ModernMember) -> None:
        """Add a new member, or a member's changed description."""
        group_id, records = self.group.group_id, self.group.records
        record = records.member_metadata(group_id, member.member_id, member.description())
        self._write(record).put_member(member)

    def settle(self, member: ModernMember) -> None:
        """Set what a member has, its epoch or its state."""
        group_id, records = self.group.group_id, self.group.records
        assert member.member_id in self.group.members, member.member_id  # ``describe`` comes first
        record = records.current_member_assignment(group_id, member.member_id, member.assignment())
        self._write(record).put_member(member)

    def replace(self, old: M, member_id: str) -> M:
        """Give a static member that is back under a new id what it had, and its target."""
        former: Any = old
        assert former.about.instance_id is not None, old.member_id  # others join anew
        target = self.group.target_of(old.member_id)
        self.remove([old.member_id])
        new: M = former._replace(member_id=member_id, epoch=0, previous_epoch=0)
        self.describe(new)
        self.set_target(member_id, target)
        self.settle(new)
        return new

    def remove(self, member_ids: Collection[str]) -> None:
        """Remove members; their timers run until the change is finished, for it may be refused."""
        group_id = self.group.group_id
        self.removed = (*self.removed, *member_ids)
        for member_id in member_ids:
            group = self._write(*self.group.records.member_tombstones(group_id, [member_id]))
            group.remove_member(member_id)
            group.targets.pop(member_id, None)

    # The group

    def next_epoch(self, *, is_certain: bool) -> None:
        """Go to the next epoch if that is certain or if the topics have changed."""
        group = self.group
        topics_hash = hash_topics(group.subscribed_topics(), self.topics)
        if is_certain or topics_hash != group.metadata_hash:
            if not is_certain:
                self.note("its topics have changed")
            self.set_epoch(group.epoch + 1, topics_hash)

    def set_epoch(self, epoch: int, topics_hash: int) -> None:
        """Set the epoch of the group, with what it depends on."""
        # Members know an epoch that is over by its number.
        assert epoch >= self.group.epoch, (self.group.group_id, epoch, self.group.epoch)
        value = self._metadata(epoch, topics_hash)
        record = self.group.records.metadata(self.group.group_id, value)
        self._write(record).take_metadata(value)

    def _metadata(self, epoch: int, topics_hash: int) -> Any:
        """The group at an epoch in the form of its record."""
        value = self.group.records.metadata.value
        assert value is not None, self.group.group_id
        return value(epoch=epoch, metadata_hash=topics_hash)

    # The target

    def set_target(
        self, member_id: str, target: Any, record: CoordinatorRecord | None = None
    ) -> None:
        """Set a member's target; ``record`` is its record, if that exists already."""
        assert member_id in self.group.members, member_id  # nothing would remove the target
        if record is None:
            record = self.group.target_record(self.group.group_id, member_id, target)
        self._write(record).targets[member_id] = target

    def set_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Set the epoch of the target; the time is 0 for one that isn't computed here, or empty."""
        group = self.group
        # Members that are told a target's epoch never hear of an earlier one.
        assert group.target_epoch <= epoch <= group.epoch, (group.group_id, epoch)
        value = TargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        )
        group = self._write(group.records.target_assignment_metadata(group.group_id, value))
        group.target_epoch, group.target_timestamp_ms = epoch, timestamp_ms

    @abstractmethod
    def assign_in_time(self) -> None:
        """Compute the target of the group's epoch, now or at the end of the assignment interval.

        Long work is left in ``to_assign``; while it is computed, no other assignment begins.
        """

    def is_time_to_assign(self) -> bool:
        """Whether the group needs an assignment now; if it does later, its timer is set."""
        group = self.group
        group.timers.assignment_ms = None
        if group.epoch <= group.target_epoch or not group.members or group.timers.assigning:
            return False
        passed_ms = self.turn.date_ms - group.target_timestamp_ms
        left_ms = self.settings.assignment_interval_ms - passed_ms
        if left_ms > 0 and passed_ms >= 0:  # below 0, the clock was set back
            group.timers.assignment_ms = self.turn.now_ms + left_ms
            return False
        return True
