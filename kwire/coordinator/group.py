"""The interface of groups of every kind, and of the code for each kind.

Rules:

- A group id names one group, of one kind. A request of another kind's protocol is refused by that
  other kind, unless it may convert the group.
- ``Group`` keeps state: it answers questions, and changes nothing but sessions.
  ``GroupsOfAKind`` decides: it runs operations, and puts their results into ``Effects``.
- A group that no member has joined, and that only has offsets, is in no registry. It counts as an
  empty classic group.

Source: Group and Group.GroupType of Kafka.
"""

import heapq
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, NamedTuple, Protocol

from kwire.coordinator.effects import Effects, Turn
from kwire.coordinator.rebalance_history import RebalanceHistory
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record

EMPTY_STATE = "Empty"
"""The name of the state of a group without members, for every kind."""


class GroupType(Enum):
    """The kinds of groups, with the names that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Committer(NamedTuple):
    """The client that commits offsets, as its request describes it.

    ``generation`` is the member epoch in groups with epochs; -1 for a client that is no member.
    """

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    api_version: int = 0
    is_transactional: bool = False


class Group(Protocol):
    """One group of any kind."""

    group_id: str
    scheduled_ms: int | None
    """When ``GroupRegistry`` looks at the group next; other code never touches this."""

    @property
    def kind(self) -> GroupType:
        """The kind of the group."""
        ...

    @property
    def state_name(self) -> str:
        """Kafka's name of the group's state; ``EMPTY_STATE`` exactly if it has no members."""
        ...

    @property
    def protocol_type_name(self) -> str:
        """The protocol type that ListGroups shows."""
        ...

    @property
    def may_expire(self) -> bool:
        """Whether the group ends with its last offset: nobody is in it, or about to join."""
        ...

    def check_commit(self, committer: Committer, now_ms: int) -> None:
        """Renew the session of a member that may commit offsets; KafkaError if it may not."""

    def check_commit_of(
        self, committer: Committer, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """KafkaError if a client that may commit may not commit this partition."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """KafkaError if a client may not fetch offsets; a client that is no member has None, -1."""

    def check_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP) if the group may not be deleted."""

    def check_offset_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP) if no offset may be deleted, whatever its topic."""

    def subscribed_topics(self) -> AbstractSet[str] | None:
        """The topics that the members read; None if kwire can't read the subscriptions."""

    def offset_age_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time from which the age of an unread offset counts; None: no offset expires now."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group, without its offsets."""
        ...

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of the group."""


class GroupsOfAKind(Protocol):
    """The code for one kind of group, as a coordinator calls it with groups of that kind."""

    def expire(self, group: Any, turn: Turn) -> None:
        """Do the overdue work of a group."""

    def begin(self, group: Any, turn: Turn) -> None:
        """Begin after loading: each member has a whole session to send its first request."""

    def end(self, group: Any, code: ErrorCode, effects: Effects) -> None:
        """Answer all members that wait with an error, because the coordinator ends."""

    def replay(self, kind: int, record: Record, now_ms: int, *, loading: bool) -> None:
        """Apply a record of a type that belongs to this kind; MalformedRequest if damaged."""


class GroupRegistry:
    """The groups of a coordinator by id, and the time at which each needs attention.

    ``new_id`` gives the random part of a member's id; ``history`` keeps the groups' events.
    ``date_ms`` gives the date; without it, the time of an operation counts as the date.
    """

    __slots__ = ("_date_ms", "_schedule", "groups", "history", "new_id", "settings")

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        history: RebalanceHistory,
        date_ms: Callable[[], int] | None = None,
    ) -> None:
        self.history = history
        self.settings = settings
        self.new_id = new_id
        self.groups: dict[str, Group] = {}
        self._schedule: list[tuple[int, str]] = []
        self._date_ms = date_ms

    def turn(self, now_ms: int) -> Turn:
        """Begin an operation at this time."""
        return Turn(now_ms, self.settings, Effects(), self.history, self._date_ms)

    def check_room(self, offsets_only: int = 0) -> None:
        """KafkaError (GROUP_MAX_SIZE_REACHED) if no further group may be kept.

        ``offsets_only`` counts the groups that are known only by their offsets.
        """
        if max(len(self.groups), offsets_only) >= self.settings.max_count:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"kwire.group.max.count={self.settings.max_count} allows no more groups in one "
                "partition of __consumer_offsets",
            )

    def reschedule(self, group: Group, not_before_ms: int = 0) -> None:
        """Plan the next look at a group by its deadline; a look too early costs little.

        ``not_before_ms`` keeps a deadline that stays overdue from occupying the broker.
        """
        due = group.next_deadline_ms()
        if due is None:
            return
        due = max(due, not_before_ms)
        if group.scheduled_ms is None or due < group.scheduled_ms:
            group.scheduled_ms = due
            heapq.heappush(self._schedule, (due, group.group_id))

    def next_deadline_ms(self) -> int | None:
        """When the next group needs attention; None: never as things stand."""
        return self._schedule[0][0] if self._schedule else None

    def take_due(self, now_ms: int) -> Group | None:
        """A group that needs attention by now; the caller reschedules it afterwards."""
        while self._schedule and self._schedule[0][0] <= now_ms:
            due_ms, group_id = heapq.heappop(self._schedule)
            group = self.groups.get(group_id)
            assert group is None or group.group_id == group_id, group_id
            if group is not None and group.scheduled_ms == due_ms:
                group.scheduled_ms = None
                return group
        return None

    def clear(self) -> None:
        """Forget every group."""
        self.groups.clear()
        self._schedule.clear()
