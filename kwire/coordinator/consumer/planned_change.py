"""A planned change of a consumer group or a share group, which have this in common.

Rules:

- The change never touches the group itself: its first record copies the group. The group changes
  when the records have been written and are replayed.
- Two assignments are at least the assignment interval apart, so that members who join one after the
  other share one assignment (KIP-1263).
"""

from collections.abc import Sized
from typing import Generic, Protocol, TypeVar

from kwire.coordinator.consumer.timers import GroupTimers
from kwire.coordinator.consumer.topics import Topics, hash_topics
from kwire.coordinator.effects import Turn
from kwire.coordinator.records import CoordinatorRecord


class AssignedGroup(Protocol):
    """A group whose partitions this broker assigns."""

    group_id: str
    epoch: int
    metadata_hash: int
    target_epoch: int
    target_timestamp_ms: int
    timers: GroupTimers

    @property
    def members(self) -> Sized:
        """The members."""
        ...

    def subscribed_topics(self) -> frozenset[str]:
        """The names of the topics to which any member subscribes."""
        ...

    def copy(self: "G") -> "G":
        """A copy, which changes by itself."""
        ...


G = TypeVar("G", bound=AssignedGroup)


class PlannedChange(Generic[G]):
    """One operation on one group; ``group`` is the group as it will be.

    ``is_changed`` says that ``group`` is a changed copy of the original.
    """

    def __init__(self, group: G, turn: Turn, topics: Topics) -> None:
        self.group = group
        self.turn = turn
        self.topics = topics
        self.is_changed = False

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

    def next_epoch(self, *, is_certain: bool) -> None:
        """Go to the next epoch if that is certain or if the topics have changed."""
        group = self.group
        topics_hash = hash_topics(group.subscribed_topics(), self.topics)
        if is_certain or topics_hash != group.metadata_hash:
            if not is_certain:
                self.note("its topics have changed")
            self.set_epoch(group.epoch + 1, topics_hash)

    def set_epoch(self, epoch: int, topics_hash: int) -> None:
        """Set the epoch of the group."""
        raise NotImplementedError

    def is_time_to_assign(self, interval_ms: int) -> bool:
        """Whether the group needs an assignment now; if it does later, its timer is set."""
        group = self.group
        group.timers.assignment_ms = None
        if group.epoch <= group.target_epoch or not group.members or group.timers.assigning:
            return False
        passed_ms = self.turn.date_ms - group.target_timestamp_ms
        left_ms = interval_ms - passed_ms
        if left_ms > 0 and passed_ms >= 0:  # below 0, the clock was set back
            group.timers.assignment_ms = self.turn.now_ms + left_ms
            return False
        return True
