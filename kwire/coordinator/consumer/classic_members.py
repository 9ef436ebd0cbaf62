"""Members of the classic protocol in consumer groups: join, sync, heartbeat, leave.

Rules:

- Such a member never leads, because the coordinator assigns. JoinGroup takes the member a step
  towards its target, and is answered at once. SyncGroup gives the member its assignment.
- Its generation is its member epoch. A heartbeat asks the member to join again if the target has a
  newer epoch, if the member has to confirm that it gave partitions back, or if a partition that it
  waited for is free.
- Once asked to, the member must join and sync within its rebalance timeout.

Source: the classicGroup…ToConsumerGroup methods of GroupMetadataManager of Kafka 4.3; KIP-848.
"""

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.classic_protocol import maybe_complete_join
from kwire.coordinator.consumer.coordinator import ConsumerGroups
from kwire.coordinator.consumer.embedded import (
    pack_assignment,
    parse_subscription,
    to_partitions,
)
from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer.group_update import GroupUpdate
from kwire.coordinator.consumer.member import (
    ClassicMember,
    ConsumerMember,
    Description,
    MemberState,
)
from kwire.coordinator.consumer.reconciliation import check_state
from kwire.coordinator.consumer.settings import MigrationPolicy
from kwire.coordinator.consumer.timers import Timer
from kwire.coordinator.consumer_subscription import CONSUMER_PROTOCOL_TYPE
from kwire.coordinator.effects import Effects, Turn, Waiter
from kwire.coordinator.heartbeat_checks import check_room
from kwire.coordinator.joining import REQUIRES_KNOWN_ID_SINCE, Client
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.codec import MalformedRequest
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMembers:
    """The requests that members of the classic protocol send to a consumer group."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        client: Client,
        new_id: str,
        waiter: Waiter,
        turn: Turn,
    ) -> Effects:
        """Join a member, or join it again; ``new_id`` is for a member without an id.

        Raises KafkaError: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
        FENCED_INSTANCE_ID.
        """
        update = self._groups.changes.start_update(group, turn)
        subscription = _check_join(update, request)
        needs_id = not request.member_id and request.group_instance_id is None
        if needs_id and client.api_version >= REQUIRES_KNOWN_ID_SINCE:
            required = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=new_id)
            turn.effects.reply(waiter, required)
            return turn.effects
        before = self._joining_member(update, request, new_id)
        owned = to_partitions(subscription.owned_partitions, update.topics)
        check_state(before, owned)
        about = _described(request, client, subscription)
        is_new = before.member_id not in update.group.members
        resubscribed = (about.topics, about.regex) != (before.about.topics, before.about.regex)
        member = before._replace(about=about)
        if about != before.about or is_new:
            update.describe(member)
            if is_new or not before.is_classic:
                update.note(f"{member.member_id} joins with the classic protocol")
        self._groups.changes.go_on(update, is_certain=resubscribed)
        member = update.reconcile(member, owned, resubscribed=resubscribed)
        self._has_joined(update, member)
        placed = self._groups.changes.finish(update)
        if isinstance(placed, ClassicGroup):
            # The last member of the consumer protocol was replaced, so all members rebalance.
            placed.members[member.member_id].joining = waiter
            maybe_complete_join(placed, turn)
        else:
            turn.effects.reply(waiter, _join_response(member))
        return turn.effects

    def _joining_member(
        self, update: GroupUpdate, request: JoinGroupRequest, new_id: str
    ) -> ConsumerMember:
        group, instance_id = update.group, request.group_instance_id
        member_id = request.member_id or new_id
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if request.member_id:
            return group.validate_member(member_id, instance_id)
        in_place = group.static_member(instance_id)
        if in_place is None:
            return ConsumerMember(member_id)
        return self._groups.replace_static(update, in_place, member_id)

    def _has_joined(self, update: GroupUpdate, member: ConsumerMember) -> None:
        timers, now_ms = update.group.timers, update.turn.now_ms
        timers.cancel(member.member_id, Timer.JOIN, Timer.REBALANCE)
        self._groups.renew_session(update, member)
        sync_ms = now_ms + max(0, member.about.rebalance_timeout_ms)
        timers.set(member.member_id, Timer.SYNC, sync_ms)

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, waiter: Waiter, turn: Turn
    ) -> Effects:
        """Answer a member with its assignment.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
        """
        member = _member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        assert member.about.classic is not None
        name = member.about.classic.protocols[0][0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
            request.protocol_name not in (None, name)
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        update = self._groups.changes.start_update(group, turn)
        is_behind = member.epoch < group.target_epoch
        if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._must_join(update, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        group.timers.cancel(member.member_id, Timer.SYNC)
        self._groups.renew_session(update, member)
        turn.effects.reply(
            waiter,
            SyncGroupResponse(
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocol_name=name,
                assignment=pack_assignment(member, update.topics),
            ),
        )
        return turn.effects

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, turn: Turn) -> None:
        """Renew a member's session.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, and
        REBALANCE_IN_PROGRESS if the member has to join again.
        """
        member = _member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        update = self._groups.changes.start_update(group, turn)
        self._groups.renew_session(update, member)
        waits = member.state is MemberState.UNRELEASED_PARTITIONS
        if (
            member.epoch < group.target_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (waits and not group.waits_for_others(member))
        ):
            self._must_join(update, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(
        self, group: ConsumerGroup, leaving: list[MemberIdentity], waiter: Waiter, turn: Turn
    ) -> Effects:
        """Remove members together; each has its own result in a LeaveGroupResponse.

        This also removes members of the consumer protocol, for which admin clients use it.
        """
        update = self._groups.changes.start_update(group, turn)
        answers = []
        gone: dict[str, str] = {}
        for identity in leaving:
            answer = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            answers.append(answer)
            try:
                member = _leaving_member(group, identity)
                if member.member_id in gone:
                    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
                gone[member.member_id] = f"it left (reason: {identity.reason or 'not provided'})"
            except KafkaError as error:
                answer.error_code = error.code
        if gone:
            self._groups.fence(update, gone)
        turn.effects.reply(waiter, LeaveGroupResponse(members=answers))
        return turn.effects

    def _must_join(self, update: GroupUpdate, member: ConsumerMember) -> None:
        deadline_ms = update.turn.now_ms + max(0, member.about.rebalance_timeout_ms)
        update.group.timers.set_if_absent(member.member_id, Timer.JOIN, deadline_ms)
        self._groups.changes.finish(update)


def _check_join(update: GroupUpdate, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """The subscription of a member; KafkaError if the member can't be in the group."""
    settings = update.settings
    inconsistent = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_room(update.group, request.member_id, request.group_instance_id, settings.max_size)
    if settings.migration_policy is MigrationPolicy.DISABLED:
        raise inconsistent
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        raise inconsistent
    offered = {protocol.name for protocol in request.protocols}
    for member in update.group.members.values():
        if member.about.classic is not None and member.member_id != request.member_id:
            offered &= {name for name, _ in member.about.classic.protocols}
    if not offered:
        raise inconsistent
    try:
        for protocol in reversed(request.protocols):
            subscription = parse_subscription(protocol.metadata)
    except MalformedRequest as error:
        raise inconsistent from error
    return subscription


def _described(
    request: JoinGroupRequest, client: Client, subscription: ConsumerProtocolSubscription
) -> Description:
    timeout_ms = request.rebalance_timeout_ms
    return Description(
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=client.client_id,
        client_host=client.host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        classic=ClassicMember(
            request.session_timeout_ms, tuple((p.name, p.metadata) for p in request.protocols)
        ),
    )


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    """The answer to a member: no member leads, so no answer lists the other members."""
    assert member.about.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.about.classic.protocols[0][0],
    )


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member with these ids, if it is of the classic protocol."""
    member = group.validate_member(member_id, instance_id)
    if not member.is_classic:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if instance_id is not None and not member_id:
        member_id = group.static_members.get(instance_id, "")
    return group.validate_member(member_id, instance_id)


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
