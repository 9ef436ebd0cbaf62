"""The heartbeats of members of consumer groups, in the frame of ``ModernGroups``.

Source: GroupMetadataManager of Kafka 4.3 (the consumerGroup… methods).
"""

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.consumer.changes import Changes
from kwire.coordinator.consumer.conversion import (
    check_upgrade,
    may_downgrade,
    to_consumer_group,
    write_upgrade,
)
from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer.group_update import GroupUpdate
from kwire.coordinator.consumer.heartbeat import (
    assignment_of,
    check_epoch,
    check_request,
    described,
    has_other_partitions,
    is_full,
    reported_partitions,
)
from kwire.coordinator.consumer.member import (
    NOTHING_OWNED,
    ConsumerMember,
    MemberState,
)
from kwire.coordinator.consumer.reconciliation import check_state
from kwire.coordinator.consumer.regexes import check_regex
from kwire.coordinator.consumer.replaying import CONSUMER_GROUPS, take_target_into
from kwire.coordinator.consumer.timers import Timer
from kwire.coordinator.effects import Turn
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.heartbeat_checks import check_instance_is_free, check_room
from kwire.coordinator.joining import Client
from kwire.coordinator.modern_group import JOINING_EPOCH, STATIC_LEAVING_EPOCH
from kwire.coordinator.modern_groups import ModernGroups
from kwire.coordinator.records import WrittenTarget
from kwire.coordinator.surroundings import Surroundings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerGroups(
    ModernGroups[
        ConsumerGroup, GroupUpdate, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
    ]
):
    """The consumer groups of one coordinator."""

    replaying = CONSUMER_GROUPS

    def __init__(self, registry: GroupRegistry, surroundings: Surroundings) -> None:
        self.changes = Changes(registry, surroundings)
        super().__init__(registry, surroundings, self.changes)

    def _check(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        settings = self._around.settings_of(request.group_id)
        check_request(request, client.api_version, settings.assignors)

    # A member joins or stays

    def _beat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, turn: Turn
    ) -> ConsumerGroupHeartbeatResponse:
        joins = request.member_epoch == JOINING_EPOCH
        update = self._open_group(request.group_id, turn, joins=joins)
        original = update.original
        check_room(original, request.member_id, request.instance_id, update.settings.max_size)
        reported = reported_partitions(request)
        if joins:
            before = self._joining_member(update, request)
        else:
            before = original.validate_member(request.member_id, request.instance_id)
            check_epoch(before, request.member_epoch, reported)
        check_state(before, reported)
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
        self.changes.go_on(update, is_certain=is_certain)
        member = update.reconcile(member, reported, resubscribed=resubscribed)
        if member != before:
            _time_revocation(update, member)
        self.renew_session(update, member)
        self.changes.finish(update)
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
            if not in_place.is_classic:
                check_instance_is_free(in_place, member_id)
            return self.replace_static(update, in_place, member_id)
        return update.group.members.get(member_id) or ConsumerMember(member_id)

    def replace_static(
        self, update: GroupUpdate, in_place: ConsumerMember, member_id: str
    ) -> ConsumerMember:
        """Replace a static member's former entry, when the member comes back under another id."""
        update.note(f"static member {in_place.about.instance_id} is back as {member_id}")
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

    # A member leaves

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, turn: Turn
    ) -> ConsumerGroupHeartbeatResponse:
        update = self._open_group(request.group_id, turn, joins=False)
        member = update.original.validate_member(request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            away = {t: dict.fromkeys(p, 0) for t, p in member.assigned.items()}
            update.settle(
                member._replace(epoch=STATIC_LEAVING_EPOCH, assigned=away, revoking=NOTHING_OWNED)
            )
            update.note(f"static member {request.instance_id} is away")
            self.changes.finish(update)
        else:
            self.fence(update, {member.member_id: "it left"})
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )

    def _goes_on(self, update: GroupUpdate) -> bool:
        # A group that becomes classic again keeps its epoch, which its members know.
        return not may_downgrade(update.group, update.settings)

    # Steps of all operations

    def _open_group(self, group_id: str, turn: Turn, *, joins: bool) -> GroupUpdate:
        """The group to work on; if a member ``joins``, it may be created or converted.

        Raises KafkaError: GROUP_ID_NOT_FOUND.
        """
        known = self._registry.groups.get(group_id)
        if isinstance(known, ConsumerGroup):
            return self.changes.start_update(known, turn)
        if joins and known is None:
            self._registry.check_room()
            group = ConsumerGroup(group_id)
        elif joins and isinstance(known, ClassicGroup):
            return self._upgrade(known, turn)
        else:
            what = "not found" if known is None else "is not a consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        return self.changes.start_update(group, turn)

    def _upgrade(self, known: ClassicGroup, turn: Turn) -> GroupUpdate:
        if not known.members:
            turn.effects.records += known.tombstones()
            group = ConsumerGroup(known.group_id)
            return self.changes.start_update(group, turn)
        check_upgrade(known, self._around.settings_of(known.group_id))
        group = to_consumer_group(known, self._around.topics())
        update = self.changes.start_update(group, turn)
        write_upgrade(update)
        for member in group.members.values():
            self.renew_session(update, member)
        return update

    # In the frame of all kinds

    def _session_timeout_ms(self, update: GroupUpdate, member: ConsumerMember) -> int:
        classic = member.about.classic
        return classic.session_timeout_ms if classic else update.settings.session_timeout_ms

    def _begin_member(self, update: GroupUpdate, member: ConsumerMember) -> None:
        self.renew_session(update, member)
        _time_revocation(update, member)

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
