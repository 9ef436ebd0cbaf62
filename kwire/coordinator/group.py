"""What groups of every kind have in common, and who looks after each kind.

Rules:

- A group id names one group, of one kind; a request of another kind's protocol is refused by the
  kind whose request it is, unless it may convert the group.
- ``Group`` is the bookkeeping: it answers questions and changes nothing but sessions.
  ``GroupsOfAKind`` decides: it takes turns, and leaves what they lead to in ``Effects``.
- A group nobody has joined, which only has offsets, is in no registry: it counts as an empty
  classic group.

Source: Group and Group.GroupType of Kafka.
"""

import heapq
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, NamedTuple, Protocol

from kwire.coordinator.effects import Effects, Turn
from kwire.coordinator.history import Histories
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record

EMPTY_STATE = "Empty"
"""The name of the state of a group without members, of every kind."""


class GroupType(Enum):
    """The kinds of groups by the names that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Committer(NamedTuple):
    """Who commits offsets, as its request says.

    ``generation`` is the member epoch in groups that have one; -1 for a client that is no member.
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
    """When ``GroupRegistry`` will look at it next; nobody else touches this."""

    @property
    def kind(self) -> GroupType:
        """Its kind."""
        ...

    @property
    def state_name(self) -> str:
        """Kafka's name of its state; ``EMPTY_STATE`` exactly where there are no members."""
        ...

    @property
    def protocol_type_name(self) -> str:
        """What ListGroups shows as the protocol's type."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether it has no members, nor anyone who is about to join."""
        ...

    def check_commit(self, committer: Committer, now_ms: int) -> None:
        """Renew the session of a member that may commit offsets; KafkaError says why not."""

    def check_commit_of(self, committer: Committer, topic_id: bytes, partition: int) -> None:
        """KafkaError where somebody who may commit may not commit this partition."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """KafkaError where somebody may not fetch offsets; null and -1 for one that is none."""

    def check_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP) where the group may not be deleted."""

    def check_offset_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP) where no offset may be deleted, whatever its topic."""

    def subscribed_topics(self) -> AbstractSet[str] | None:
        """The topics its members read; None where that can't be told."""

    def offset_age_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when on the age of an offset counts that isn't read; None: none expires now."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group; its offsets are not among them."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When something is due next."""


class GroupsOfAKind(Protocol):
    """What a coordinator asks of those who look after one kind; groups given are of that kind."""

    def expire(self, group: Any, turn: Turn) -> None:
        """Do what is due by now."""

    def begin(self, group: Any, turn: Turn) -> None:
        """Everything is loaded: every member has a whole session from now on to be heard."""

    def end(self, group: Any, code: ErrorCode, effects: Effects) -> None:
        """The coordinator is no more: answer everybody who waits."""

    def replay(self, kind: int, record: Record, now_ms: int, *, loading: bool) -> None:
        """Take in a record of a type that is this kind's own; MalformedRequest if damaged."""


class GroupRegistry:
    """The groups of a coordinator by id, and when each has to be looked at.

    ``new_id`` gives the random part of a member's id; ``histories`` keep what happens to groups.
    ``date_ms`` gives the date; the moment of an operation is one if it isn't given.
    """

    __slots__ = ("_date_ms", "_schedule", "groups", "histories", "new_id", "settings")

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        histories: Histories,
        date_ms: Callable[[], int] | None = None,
    ) -> None:
        self.histories = histories
        self.settings = settings
        self.new_id = new_id
        self.groups: dict[str, Group] = {}
        self._schedule: list[tuple[int, str]] = []
        self._date_ms = date_ms

    def turn(self, now_ms: int) -> Turn:
        """An operation that begins now."""
        return Turn(now_ms, self.settings, Effects(), self.histories, self._date_ms)

    def check_room(self, offsets_only: int = 0) -> None:
        """KafkaError (GROUP_MAX_SIZE_REACHED) where no further group is kept.

        ``offsets_only`` groups are known besides by their offsets.
        """
        if max(len(self.groups), offsets_only) >= self.settings.max_count:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"kwire.group.max.count={self.settings.max_count} allows no more groups in one "
                "partition of __consumer_offsets",
            )

    def reschedule(self, group: Group) -> None:
        """See to it that a group is looked at in time; looking too early costs little."""
        due = group.next_deadline_ms()
        if due is not None and (group.scheduled_ms is None or due < group.scheduled_ms):
            group.scheduled_ms = due
            heapq.heappush(self._schedule, (due, group.group_id))

    def next_deadline_ms(self) -> int | None:
        """When a group has to be looked at next; None: never as things stand."""
        return self._schedule[0][0] if self._schedule else None

    def take_due(self, now_ms: int) -> Group | None:
        """A group that has to be looked at by now, to be rescheduled after that."""
        while self._schedule and self._schedule[0][0] <= now_ms:
            due_ms, group_id = heapq.heappop(self._schedule)
            group = self.groups.get(group_id)
            if group is not None and group.scheduled_ms == due_ms:
                group.scheduled_ms = None
                return group
        return None

    def clear(self) -> None:
        """Forget every group."""
        self.groups.clear()
        self._schedule.clear()
