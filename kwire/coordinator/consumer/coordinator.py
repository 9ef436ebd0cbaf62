"""The requests of members of consumer groups, and the overdue work of these groups.

Rules:

- Every operation takes a request and ``now_ms``, and puts records and replies into ``Effects``. A
  KafkaError is the answer to the request, and then nothing has changed.
- Groups change by ``replay`` alone. Only a new or converted group is put in its place at once, and
  is removed again if its records can't be written.
- Every request of a member that isn't refused renews the member's session.

Source: GroupMetadataManager of Kafka 4.3 (the consumerGroup… methods).
"""

from collections.abc import Iterable

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.consumer.changes import RETRY_MS, Changes, Surroundings
from kwire.coordinator.consumer.conversion import (
    check_upgrade,
    may_downgrade,
    to_consumer_group,
    write_upgrade,
)
from kwire.coordinator.consumer.group import STABLE_STATE, ConsumerGroup
from kwire.coordinator.consumer.group_update import GroupUpdate
from kwire.coordinator.consumer.heartbeat import (
    assignment_of,
    check_epoch,
    check_instance_is_free,
    check_request,
    check_room,
    described,
    has_other_partitions,
    is_full,
    reported_partitions,
)
from kwire.coordinator.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOTHING_OWNED,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from kwire.coordinator.consumer.regexes import check_regex
from kwire.coordinator.consumer.replaying import replay_into, take_target_into
from kwire.coordinator.consumer.timers import Timer
from kwire.coordinator.effects import Effects, Turn, Waiter
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.joining import Client
from kwire.coordinator.records import WrittenTarget
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.record.records import Record


class ConsumerGroups:
    """The consumer groups of one coordinator."""

    def __init__(self, registry: GroupRegistry, surroundings: Surroundings) -> None:
        self._registry = registry
        self._around = surroundings
        self.changes = Changes(registry, surroundings)

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        waiter: Waiter,
        now_ms: int,
    ) -> Effects:
        """Let a member join, stay, or leave; it is answered at once.

        Raises KafkaError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION,
        GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
        UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED.
        """
        settings = self._around.settings_of(request.group_id)
        check_request(request, client.api_version, settings.assignors)
        turn = self._registry.turn(now_ms)
        if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
            response = self._remove_member(request, turn)
        else:
            response = self._beat(request, client, turn)
        turn.effects.reply(waiter, response)
        return turn.effects

    # A member joins or stays

    def _beat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, turn: Turn
    ) -> ConsumerGroupHeartbeatResponse:
        update, original = self._open_group(
            request.group_id, turn, joins=request.member_epoch == JOINING_EPOCH
        )
        check_room(original, request.member_id, request.instance_id, update.settings.max_size)
        reported = reported_partitions(request)
        if request.member_epoch == JOINING_EPOCH:
            before = self._joining_member(update, request)
        else:
            before = original.validate_member(request.member_id, request.instance_id)
            check_epoch(before, request.member_epoch, reported)
        about = described(before.about, request, client)
        if about.regex and about.regex != before.about.regex:
            check_regex(about.regex)
        is_new = before.member_id not in update.group.members
        resubscribed = (about.topics, about.regex) != (before.about.topics, before.about.regex)
        member = before._replace(about=about)
        if is_new or about != before.about:
            update.describe(member)
            self._log_member(update, before, member, is_new=is_new)
        if client.visible is not None and about.regex:
            update.set_view(member, client.visible)
        is_certain = resubscribed and _sees_other_topics(original, before, member)
        self.changes.go_on(update, original, is_certain=is_certain)
        member = update.reconcile(member, reported, resubscribed=resubscribed)
        if member != before:
            _time_revocation(update, member)
        session_ms = turn.now_ms + update.settings.session_timeout_ms
        update.group.timers.set(member.member_id, Timer.SESSION, session_ms)
        self.changes.finish(update, original)
        shows_all = is_full(request) or has_other_partitions(before, member)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._interval_ms(update),
            assignment=assignment_of(member) if shows_all else None,
        )

    def _joining_member(
        self, update: GroupUpdate, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerMember:
        """The member that joins: a new one, a known one, or one in place of a static member."""
        member_id = request.member_id or self._registry.new_id()
        in_place = update.group.static_member(request.instance_id)
        if in_place is not None and in_place.member_id != member_id:
            check_instance_is_free(in_place, member_id)
            return self.replace_static(update, in_place, member_id)
        return update.group.members.get(member_id) or ConsumerMember(member_id)

    def replace_static(
        self, update: GroupUpdate, in_place: ConsumerMember, member_id: str
    ) -> ConsumerMember:
        """Replace a static member's former entry, when the member comes back under another id."""
        update.note(f"static member {in_place.about.instance_id} is back as {member_id}")
        update.group.timers.cancel(in_place.member_id)
        return update.replace(in_place, member_id)

    def _log_member(
        self, update: GroupUpdate, before: ConsumerMember, member: ConsumerMember, *, is_new: bool
    ) -> None:
        if is_new:
            update.note(f"{member.member_id} joins")
        elif before.about.topics != member.about.topics:
            topics = ", ".join(member.about.topics) or "nothing"
            update.note(f"{member.member_id} subscribes to {topics}")
        elif before.about.regex != member.about.regex:
            update.note(f"{member.member_id} subscribes to /{member.about.regex}/")

    def _interval_ms(self, update: GroupUpdate) -> int:
        if update.group.has_nothing_to_share:
            return update.settings.heartbeat_interval_ms
        return update.group.heartbeat_interval.next_ms(
            len(update.group.members),
            update.settings.heartbeat_interval_ms,
            self._around.heartbeats,
            update.turn.now_ms,
        )

    # A member leaves

    def _remove_member(
        self, request: ConsumerGroupHeartbeatRequest, turn: Turn
    ) -> ConsumerGroupHeartbeatResponse:
        update, original = self._open_group(request.group_id, turn, joins=False)
        member = original.validate_member(request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            away = {t: dict.fromkeys(p, 0) for t, p in member.assigned.items()}
            update.settle(
                member._replace(epoch=STATIC_LEAVING_EPOCH, assigned=away, revoking=NOTHING_OWNED)
            )
            update.note(f"static member {request.instance_id} is away")
            self.changes.finish(update, original)
        else:
            self.fence(update, original, {member.member_id: "it left"})
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )

    def fence(self, update: GroupUpdate, original: ConsumerGroup, gone: dict[str, str]) -> None:
        """Remove members, and share their partitions out. ``gone`` holds the reasons."""
        for member_id, why in gone.items():
            update.note(f"{member_id} is out: {why}")
            update.group.timers.cancel(member_id)
        update.remove(gone)
        update.turn.effects.undo.append(lambda turn: self._watch_again(original, gone, turn))
        # A group that becomes classic again keeps its epoch, which its members know.
        if not may_downgrade(update.group, update.settings):
            self.changes.go_on(update, original, is_certain=True)
        self.changes.finish(update, original)

    def _watch_again(self, group: ConsumerGroup, member_ids: Iterable[str], turn: Turn) -> None:
        """Set timers again for members whose removal couldn't be written."""
        for member_id in member_ids:
            group.timers.set(member_id, Timer.SESSION, turn.now_ms + RETRY_MS)

    # Steps of all operations

    def _open_group(
        self, group_id: str, turn: Turn, *, joins: bool
    ) -> tuple[GroupUpdate, ConsumerGroup]:
        """The group to work on; if a member ``joins``, it may be created or converted.

        Raises KafkaError: GROUP_ID_NOT_FOUND.
        """
        known = self._registry.groups.get(group_id)
        if isinstance(known, ConsumerGroup):
            return self.changes.start_update(known, turn), known
        if joins and known is None:
            self._registry.check_room()
            group = ConsumerGroup(group_id)
        elif joins and isinstance(known, ClassicGroup):
            return self._upgrade(known, turn)
        else:
            what = "not found" if known is None else "is not a consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        return self.changes.start_update(group, turn), group

    def _upgrade(self, known: ClassicGroup, turn: Turn) -> tuple[GroupUpdate, ConsumerGroup]:
        if not known.members:
            turn.effects.records += known.tombstones()
            group = ConsumerGroup(known.group_id)
            return self.changes.start_update(group, turn), group
        check_upgrade(known, self._around.settings_of(known.group_id))
        group = to_consumer_group(known, self._around.topics())
        update = self.changes.start_update(group, turn)
        write_upgrade(update)
        for member in known.members.values():
            deadline_ms = turn.now_ms + member.session_timeout_ms
            group.timers.set(member.member_id, Timer.SESSION, deadline_ms)
        return update, group

    # What the coordinator asks of every kind of group

    def expire(self, group: ConsumerGroup, turn: Turn) -> None:
        """Do the overdue work of a group: remove late members, or compute an assignment."""
        late: dict[str, str] = {}
        while (due := group.timers.take_due(turn.now_ms)) is not None:
            member = group.members.get(due.member_id)
            if member is not None and due.epoch in (-1, member.epoch):
                late[due.member_id] = due.timer.value
        update = self.changes.start_update(group, turn)
        if late:
            self.fence(update, group, late)
        elif group.timers.assignment_ms is not None and group.timers.assignment_ms <= turn.now_ms:
            self.changes.assign(update)
            self.changes.finish(update, group)

    def begin(self, group: ConsumerGroup, turn: Turn) -> None:
        """Begin after loading: each member has a whole session to send its first request."""
        settings = self._around.settings_of(group.group_id)
        for member_id, member in group.members.items():
            classic = member.about.classic
            timeout_ms = classic.session_timeout_ms if classic else settings.session_timeout_ms
            group.timers.set(member_id, Timer.SESSION, turn.now_ms + timeout_ms)
            _time_revocation(self.changes.start_update(group, turn), member)
        if group.epoch > group.target_epoch and group.members:
            group.timers.assignment_ms = turn.now_ms
        if group.state_name != STABLE_STATE:
            group.heartbeat_interval.start_anew(turn.now_ms)

    def end(self, group: ConsumerGroup, code: ErrorCode, effects: Effects) -> None:
        """Do nothing, because no member waits for an answer in a consumer group."""

    def replay(self, kind: int, record: Record, now_ms: int, *, loading: bool) -> None:
        """Apply a record of a consumer group; MalformedRequest if it is damaged."""
        replay_into(self._registry.groups, kind, record, loading=loading)

    def take_in(self, written: WrittenTarget) -> None:
        """Apply a target that was just written, as ``replay`` of its record would."""
        take_target_into(self._registry.groups, written)


def _sees_other_topics(
    original: ConsumerGroup, before: ConsumerMember, member: ConsumerMember
) -> bool:
    """Whether a member's new subscription takes its group to the next epoch.

    A new subscription does, apart from an expression that is new to the group: once its topics are
    known, they do. Kafka decides before it knows them, too.
    """
    regex = member.about.regex
    return before.about.topics != member.about.topics or not regex or regex in original.regexes


def _time_revocation(update: GroupUpdate, member: ConsumerMember) -> None:
    """Set a timer for partitions that a member gives back, for as long as the member asked for."""
    timers = update.group.timers
    if member.is_classic or member.state is not MemberState.UNREVOKED_PARTITIONS:
        timers.cancel(member.member_id, Timer.REBALANCE)
        return
    deadline_ms = update.turn.now_ms + max(0, member.about.rebalance_timeout_ms)
    timers.set(member.member_id, Timer.REBALANCE, deadline_ms, member.epoch)
