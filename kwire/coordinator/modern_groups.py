"""The frame of every kind of modern group: heartbeats, overdue work, and the time after loading.

Rules:

- Every operation takes a request and ``now_ms``, and puts records and replies into ``Effects``. A
  KafkaError is the answer to the request, and then nothing has changed.
- Groups change by ``replay`` alone. Only a new or converted group is put in its place at once, and
  is removed again if its records can't be written.
- Every request of a member that isn't refused renews the member's session.
- A kind of group says what its heartbeats do: ``_check``, ``_beat`` and ``_leave``. The rest is
  here, for all kinds (see ``kwire.coordinator.modern_group``).

Source: GroupMetadataManager of Kafka 4.4.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kwire.coordinator.consumer.planned_change import PlannedChange
from kwire.coordinator.consumer.timers import Timer
from kwire.coordinator.effects import Effects, Turn, Waiter
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.joining import Client
from kwire.coordinator.modern_changes import RETRY_MS, ModernChanges
from kwire.coordinator.modern_group import JOINING_EPOCH, ModernGroup
from kwire.coordinator.replaying import Replaying
from kwire.coordinator.surroundings import Surroundings
from kwire.errors import ErrorCode
from kwire.record.records import Record


class HeartbeatRequest(Protocol):
    """The heartbeat of a member, whatever its group's kind."""

    member_epoch: int


_G = TypeVar("_G", bound=ModernGroup[Any, Any])
_U = TypeVar("_U", bound=PlannedChange[Any, Any, Any])
_Request = TypeVar("_Request", bound=HeartbeatRequest)
_Response = TypeVar("_Response")


class ModernGroups(ABC, Generic[_G, _U, _Request, _Response]):
    """One coordinator's groups of one kind."""

    replaying: ClassVar[Replaying[Any]]
    """How the records of these groups are applied."""

    def __init__(
        self, registry: GroupRegistry, surroundings: Surroundings, changes: ModernChanges[_G, _U]
    ) -> None:
        self._registry = registry
        self._around = surroundings
        self._changes = changes

    # Heartbeats

    def heartbeat(self, request: _Request, client: Client, waiter: Waiter, now_ms: int) -> Effects:
        """Let a member join, stay, or leave; it is answered at once.

        Raises KafkaError: INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID,
        FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED, and what else the kind of group refuses.
        """
        self._check(request, client)
        turn = self._registry.turn(now_ms)
        if request.member_epoch < JOINING_EPOCH:
            response = self._leave(request, turn)
        else:
            response = self._beat(request, client, turn)
        turn.effects.reply(waiter, response)
        return turn.effects

    @abstractmethod
    def _check(self, request: _Request, client: Client) -> None:
        """Raise KafkaError for a request that is invalid, whatever the state of its group."""

    @abstractmethod
    def _beat(self, request: _Request, client: Client, turn: Turn) -> _Response:
        """Let a member join, or take it one step further; KafkaError."""

    @abstractmethod
    def _leave(self, request: _Request, turn: Turn) -> _Response:
        """Let a member leave; KafkaError."""

    def _interval_ms(self, update: _U) -> int:
        """The time until a member's next heartbeat."""
        if update.group.has_nothing_to_share:
            interval_ms: int = update.settings.heartbeat_interval_ms
            return interval_ms
        next_ms: int = update.group.heartbeat_interval.next_ms(
            len(update.group.members),
            update.settings.heartbeat_interval_ms,
            self._around.heartbeats,
            update.turn.now_ms,
        )
        return next_ms

    def renew_session(self, update: _U, member: Any) -> None:
        """Give a member a whole session to send its next request."""
        deadline_ms = update.turn.now_ms + self._session_timeout_ms(update, member)
        update.group.timers.set(member.member_id, Timer.SESSION, deadline_ms)

    def _session_timeout_ms(self, update: _U, member: Any) -> int:
        timeout_ms: int = update.settings.session_timeout_ms
        return timeout_ms

    # Members that are out

    def fence(self, update: _U, gone: dict[str, str]) -> None:
        """Remove members, and share their partitions out. ``gone`` holds the reasons."""
        assert gone, update.group.group_id  # otherwise the group would assign for nothing
        for member_id, why in gone.items():
            update.note(f"{member_id} is out: {why}")
        update.remove(gone)
        original = update.original
        update.turn.effects.undo.append(lambda turn: _watch_again(original, gone, turn))
        if self._goes_on(update):
            self._changes.go_on(update, is_certain=True)
        self._changes.finish(update)

    def _goes_on(self, update: _U) -> bool:
        """Whether a group that members have left stays a group of its kind."""
        return True

    # What the coordinator asks of every kind of group

    def expire(self, group: _G, turn: Turn) -> None:
        """Do the overdue work of a group: remove late members, or compute an assignment."""
        late: dict[str, str] = {}
        while (due := group.timers.take_due(turn.now_ms)) is not None:
            member = group.members.get(due.member_id)
            if member is not None and due.epoch in (-1, member.epoch):
                late[due.member_id] = due.timer.value
        update = self._changes.start_update(group, turn)
        if late:
            self.fence(update, late)
        elif group.timers.assignment_ms is not None and group.timers.assignment_ms <= turn.now_ms:
            self._changes.assign(update)
            self._changes.finish(update)

    def begin(self, group: _G, turn: Turn) -> None:
        """Begin after loading: each member has a whole session to send its first request."""
        update = self._changes.start_update(group, turn)
        for member in group.members.values():
            self._begin_member(update, member)
        if group.epoch > group.target_epoch and group.members:
            group.timers.assignment_ms = turn.now_ms
        if not group.is_settled:
            group.heartbeat_interval.start_anew(turn.now_ms)

    def _begin_member(self, update: _U, member: Any) -> None:
        self.renew_session(update, member)

    def end(self, group: _G, code: ErrorCode, effects: Effects) -> None:
        """Do nothing, because no member waits for an answer: heartbeats are answered at once."""

    def replay(self, kind: int, record: Record, now_ms: int, *, loading: bool) -> None:
        """Apply a record of a group of this kind; MalformedRequest if it is damaged."""
        self.replaying.replay_into(self._registry.groups, kind, record, loading=loading)


def _watch_again(group: ModernGroup[Any, Any], member_ids: Iterable[str], turn: Turn) -> None:
    """Set timers again for members whose removal couldn't be written."""
    for member_id in member_ids:
        group.timers.set(member_id, Timer.SESSION, turn.now_ms + RETRY_MS)
