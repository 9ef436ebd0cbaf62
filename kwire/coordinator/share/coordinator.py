"""The requests of members of share groups, and the overdue work of these groups.

Rules: as in ``kwire.coordinator.consumer.coordinator``. A group of another kind never becomes a
share group, not even if it is empty.

Source: GroupMetadataManager of Kafka 4.4 (the shareGroup… methods).
"""

from collections.abc import Callable, Iterable, Iterator

from kwire.coordinator.consumer.changes import RETRY_MS, Surroundings
from kwire.coordinator.consumer.timers import Timer
from kwire.coordinator.effects import Effects, Turn, Waiter
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.joining import Client
from kwire.coordinator.share.changes import ShareChanges
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.heartbeat import (
    assignment_of,
    check_epoch,
    check_request,
    check_room,
    described,
    is_full,
)
from kwire.coordinator.share.member import JOINING_EPOCH, LEAVING_EPOCH, ShareMember
from kwire.coordinator.share.offsets import ShareOffsets
from kwire.coordinator.share.replaying import replay_into
from kwire.coordinator.share.update import ShareUpdate
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.record.records import Record


class ShareGroups:
    """The share groups of one coordinator; ``has_offsets`` says that a group id has offsets."""

    def __init__(
        self,
        registry: GroupRegistry,
        surroundings: Surroundings,
        has_offsets: Callable[[str], bool],
    ) -> None:
        self._registry = registry
        self._around = surroundings
        self._has_offsets = has_offsets
        self._changes = ShareChanges(registry, surroundings)
        self.offsets = ShareOffsets(registry, self._changes)

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, waiter: Waiter, now_ms: int
    ) -> Effects:
        """Let a member join, stay, or leave; it is answered at once.

        Raises KafkaError: INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID,
        FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED.
        """
        check_request(request)
        turn = self._registry.turn(now_ms)
        if request.member_epoch == LEAVING_EPOCH:
            response = self._leave(request, turn)
        else:
            response = self._beat(request, client, turn)
        turn.effects.reply(waiter, response)
        return turn.effects

    def group(self, group_id: str) -> ShareGroup:
        """A share group; KafkaError (GROUP_ID_NOT_FOUND)."""
        group = self._registry.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        is_unknown = group is None and not self._has_offsets(group_id)
        what = "not found" if is_unknown else "is not a share group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")

    def group_or_new(self, group_id: str) -> ShareGroup:
        """A share group, which is new if there is no group of this id; KafkaError."""
        if group_id in self._registry.groups or self._has_offsets(group_id):
            return self.group(group_id)
        self._registry.check_room()
        return ShareGroup(group_id)

    # A member joins or stays

    def _beat(
        self, request: ShareGroupHeartbeatRequest, client: Client, turn: Turn
    ) -> ShareGroupHeartbeatResponse:
        joins = request.member_epoch == JOINING_EPOCH
        member_id = request.member_id
        original = self.group_or_new(request.group_id) if joins else self.group(request.group_id)
        update = self._changes.start_update(original, turn)
        check_room(original, member_id, update.settings.max_size)
        is_new = joins and member_id not in original.members
        before = ShareMember(member_id) if is_new else original.member(member_id)
        check_epoch(before, request.member_epoch)
        member = described(before, request, client)
        resubscribed = member.topics != before.topics
        if not member.is_described_as(before):
            update.describe(member)
            verb = "joins and " if is_new else ""
            update.note(f"{member_id} {verb}subscribes to {', '.join(member.topics)}")
        may_lack_states = self._changes.go_on(update, is_certain=resubscribed)
        member = update.reconcile(member, resubscribed=resubscribed)
        if may_lack_states:
            self._changes.ask_for_states(update)
        update.group.timers.set(
            member_id, Timer.SESSION, turn.now_ms + update.settings.session_timeout_ms
        )
        self._changes.finish(update, original)
        shows_all = is_full(request) or member.assigned != before.assigned
        return ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._interval_ms(update),
            assignment=assignment_of(member) if shows_all else None,
        )

    def _interval_ms(self, update: ShareUpdate) -> int:
        if update.group.has_nothing_to_share:
            return update.settings.heartbeat_interval_ms
        return update.group.heartbeat_interval.next_ms(
            len(update.group.members),
            update.settings.heartbeat_interval_ms,
            self._around.heartbeats,
            update.turn.now_ms,
        )

    # A member leaves

    def _leave(
        self, request: ShareGroupHeartbeatRequest, turn: Turn
    ) -> ShareGroupHeartbeatResponse:
        original = self.group(request.group_id)
        member = original.member(request.member_id)
        update = self._changes.start_update(original, turn)
        self._fence(update, original, {member.member_id: "it left"})
        return ShareGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )

    def _fence(self, update: ShareUpdate, original: ShareGroup, gone: dict[str, str]) -> None:
        """Remove members, and share their partitions out. ``gone`` holds the reasons."""
        for member_id, why in gone.items():
            update.note(f"{member_id} is out: {why}")
            update.group.timers.cancel(member_id)
        update.remove(gone)
        update.turn.effects.undo.append(lambda turn: _watch_again(original, gone, turn))
        self._changes.go_on(update, is_certain=True)
        self._changes.finish(update, original)

    # What the coordinator asks of every kind of group

    def expire(self, group: ShareGroup, turn: Turn) -> None:
        """Do the overdue work of a group: remove late members, or compute an assignment."""
        late: dict[str, str] = {}
        while (due := group.timers.take_due(turn.now_ms)) is not None:
            if due.member_id in group.members:
                late[due.member_id] = due.timer.value
        update = self._changes.start_update(group, turn)
        if late:
            self._fence(update, group, late)
        elif group.timers.assignment_ms is not None and group.timers.assignment_ms <= turn.now_ms:
            self._changes.assign(update)
            self._changes.finish(update, group)

    def begin(self, group: ShareGroup, turn: Turn) -> None:
        """Begin after loading: each member has a whole session to send its first request."""
        settings = self._around.share_settings_of(group.group_id)
        for member_id in group.members:
            deadline_ms = turn.now_ms + settings.session_timeout_ms
            group.timers.set(member_id, Timer.SESSION, deadline_ms)
        if group.epoch > group.target_epoch and group.members:
            group.timers.assignment_ms = turn.now_ms
        if not group.has_nothing_to_share:
            group.heartbeat_interval.start_anew(turn.now_ms)

    def end(self, group: ShareGroup, code: ErrorCode, effects: Effects) -> None:
        """Do nothing, because no member waits for an answer in a share group."""

    def forget_topics(self, now_ms: int) -> Iterator[Effects]:
        """Forget the states of deleted topics, group by group.

        The caller carries out the effects of a step before the next step.
        """
        for group in list(self._registry.groups.values()):
            if isinstance(group, ShareGroup):
                yield self.offsets.forget_topics(group, self._around.topics(), now_ms)

    def replay(self, kind: int, record: Record, now_ms: int, *, loading: bool) -> None:
        """Apply a record of a share group; MalformedRequest if it is damaged."""
        replay_into(self._registry.groups, kind, record, loading=loading)


def _watch_again(group: ShareGroup, member_ids: Iterable[str], turn: Turn) -> None:
    """Set timers again for members whose removal couldn't be written."""
    for member_id in member_ids:
        group.timers.set(member_id, Timer.SESSION, turn.now_ms + RETRY_MS)
