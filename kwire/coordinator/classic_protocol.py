"""The classic rebalance protocol: what JoinGroup, SyncGroup, Heartbeat, LeaveGroup and time do.

Rules:

- Who joins or syncs too early waits; the answer is one of the effects of a later operation.
- A rebalance is completed when everybody has joined again, or when the longest rebalance timeout
  has passed; who hasn't come by then is out. Static members stay until their session ends.
- The first rebalance of an empty group waits ``group.initial.rebalance.delay.ms`` for more members,
  again and again while more come.
- The assignment is written before anyone is told.

Source: GroupMetadataManager of Kafka (the classicGroup… methods); KIP-345, KIP-394, KIP-814.
"""

from kwire.coordinator.classic_group import ClassicGroup, GroupState, Member
from kwire.coordinator.effects import Effects, Waiter
from kwire.coordinator.records import group_metadata
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse


def validate_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> Member:
    """The member of these ids; KafkaError (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID) otherwise."""
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if known != member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def renew_session(member: Member, now_ms: int) -> None:
    """The member was heard of."""
    member.session_deadline_ms = now_ms + member.session_timeout_ms


def join_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The answer to a member of the current generation; the leader is told all members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=group.joined_members() if member.member_id == group.leader else [],
    )


def add_and_rebalance(
    group: ClassicGroup,
    member: Member,
    waiter: Waiter,
    initial_delay_ms: int,
    now_ms: int,
    effects: Effects,
) -> None:
    """Take in a new member, which waits for the rebalance it causes."""
    member.joining = waiter
    renew_session(member, now_ms)
    group.add(member)
    group.newcomer_since_delay = True
    prepare_rebalance(group, initial_delay_ms, now_ms, effects)


def update_and_rebalance(
    group: ClassicGroup,
    member: Member,
    waiter: Waiter,
    initial_delay_ms: int,
    now_ms: int,
    effects: Effects,
) -> None:
    """A member joins again; it waits for the rebalance."""
    if member.joining is not None and member.joining != waiter:
        effects.reply(
            member.joining,
            JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=""),
        )
    member.joining = waiter
    renew_session(member, now_ms)
    prepare_rebalance(group, initial_delay_ms, now_ms, effects)


def prepare_rebalance(
    group: ClassicGroup, initial_delay_ms: int, now_ms: int, effects: Effects
) -> None:
    """Begin a rebalance unless one is under way, and complete it if nobody is waited for."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, effects)
    if group.state is not GroupState.PREPARING_REBALANCE:
        is_initial = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING_REBALANCE, now_ms)
        group.sync_deadline_ms = None
        group.rebalance_deadline_ms = now_ms + group.rebalance_timeout_ms
        if is_initial:
            delay_ms = min(initial_delay_ms, group.rebalance_timeout_ms)
            group.initial_deadline_ms = now_ms + delay_ms
            group.newcomer_since_delay = False
    maybe_complete_join(group, now_ms, effects)


def maybe_complete_join(group: ClassicGroup, now_ms: int, effects: Effects) -> None:
    """Complete the rebalance if everybody has joined."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.initial_deadline_ms is not None:
        if now_ms < group.initial_deadline_ms:
            return
        complete_join(group, now_ms, effects)
    elif group.all_have_joined:
        complete_join(group, now_ms, effects)


def complete_join(group: ClassicGroup, now_ms: int, effects: Effects) -> None:
    """Begin the next generation with those who have joined."""
    group.initial_deadline_ms = None
    group.rebalance_deadline_ms = None
    for member in list(group.members.values()):
        if member.joining is None and member.group_instance_id is None:
            group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none has come back: wait for their sessions to end.
        group.rebalance_deadline_ms = now_ms + group.rebalance_timeout_ms
        return
    group.generation += 1
    if not group.members:
        group.move_to(GroupState.EMPTY, now_ms)
        group.protocol = None
        effects.records.append(group_metadata(group.group_id, group.to_record({})))
        return
    group.protocol = group.select_protocol()
    group.move_to(GroupState.COMPLETING_REBALANCE, now_ms)
    group.sync_deadline_ms = now_ms + group.rebalance_timeout_ms
    for member in group.members.values():
        member.assignment = b""
        if member.joining is not None:
            waiter, member.joining = member.joining, None
            effects.reply(waiter, join_response(group, member))
            renew_session(member, now_ms)


def sync(
    group: ClassicGroup,
    member: Member,
    assignments: dict[str, bytes],
    waiter: Waiter,
    now_ms: int,
    effects: Effects,
) -> None:
    """A member wants its assignment; the leader brings everybody's."""
    renew_session(member, now_ms)
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        case GroupState.STABLE:
            effects.reply(waiter, _sync_response(group, member))
        case GroupState.COMPLETING_REBALANCE:
            if member.syncing is not None:
                refused = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
                effects.reply(member.syncing, refused)
            member.syncing = waiter
            if member.member_id == group.leader:
                _assign(group, assignments, now_ms, effects)
        case _:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def _assign(
    group: ClassicGroup, assignments: dict[str, bytes], now_ms: int, effects: Effects
) -> None:
    """Write what the leader decided and tell those who wait."""
    group.move_to(GroupState.STABLE, now_ms)
    effects.records.append(group_metadata(group.group_id, group.to_record(assignments)))
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        if member.syncing is not None:
            waiter, member.syncing = member.syncing, None
            effects.reply(waiter, _sync_response(group, member))


def _sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


def fail_syncs(group: ClassicGroup, code: ErrorCode, effects: Effects) -> None:
    """Answer everybody who waits for an assignment with an error."""
    for member in group.members.values():
        if member.syncing is not None:
            waiter, member.syncing = member.syncing, None
            effects.reply(waiter, SyncGroupResponse(error_code=code))


def remove_member(
    group: ClassicGroup, member: Member, initial_delay_ms: int, now_ms: int, effects: Effects
) -> None:
    """A member left or was silent for too long: the others share what it had."""
    fail_waits(member, ErrorCode.UNKNOWN_MEMBER_ID, effects)
    group.remove(member.member_id)
    if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(group, initial_delay_ms, now_ms, effects)
    elif group.state is GroupState.PREPARING_REBALANCE:
        maybe_complete_join(group, now_ms, effects)


def fail_waits(member: Member, code: ErrorCode, effects: Effects) -> None:
    """Answer whatever a member waits for with an error."""
    if member.joining is not None:
        waiter, member.joining = member.joining, None
        effects.reply(
            waiter,
            JoinGroupResponse(error_code=code, member_id=member.member_id, protocol_name=""),
        )
    if member.syncing is not None:
        waiter, member.syncing = member.syncing, None
        effects.reply(waiter, SyncGroupResponse(error_code=code))


def expire(group: ClassicGroup, initial_delay_ms: int, now_ms: int, effects: Effects) -> None:
    """Do what is due by now."""
    for member_id, deadline in list(group.pending_joins.items()):
        if deadline <= now_ms:
            del group.pending_joins[member_id]
    for member in list(group.members.values()):
        if member.joining is None and member.session_deadline_ms <= now_ms:
            remove_member(group, member, initial_delay_ms, now_ms, effects)
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
        _expire_sync(group, initial_delay_ms, now_ms, effects)
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.initial_deadline_ms is not None and group.initial_deadline_ms <= now_ms:
        _expire_initial_delay(group, initial_delay_ms, now_ms, effects)
    elif group.rebalance_deadline_ms is not None and group.rebalance_deadline_ms <= now_ms:
        complete_join(group, now_ms, effects)
    else:
        maybe_complete_join(group, now_ms, effects)


def _expire_initial_delay(
    group: ClassicGroup, initial_delay_ms: int, now_ms: int, effects: Effects
) -> None:
    """Wait once more if somebody came meanwhile, as long as the rebalance timeout allows."""
    assert group.rebalance_deadline_ms is not None
    left_ms = group.rebalance_deadline_ms - now_ms
    if group.newcomer_since_delay and left_ms > 0 and initial_delay_ms > 0:
        group.newcomer_since_delay = False
        group.initial_deadline_ms = now_ms + min(initial_delay_ms, left_ms)
    else:
        complete_join(group, now_ms, effects)


def _expire_sync(group: ClassicGroup, initial_delay_ms: int, now_ms: int, effects: Effects) -> None:
    """Members that joined but never asked for their assignment are out."""
    group.sync_deadline_ms = None
    if group.state is not GroupState.COMPLETING_REBALANCE:
        return
    for member in list(group.members.values()):
        if member.syncing is None:
            group.remove(member.member_id)
    prepare_rebalance(group, initial_delay_ms, now_ms, effects)
