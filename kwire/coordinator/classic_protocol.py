"""The classic rebalance protocol: how a generation of a group begins, and how it ends.

Rules:

- A member that joins or syncs too early waits. Its answer is an effect of a later operation.
- A rebalance is complete when every member has joined again, or when the longest rebalance timeout
  has passed. A dynamic member that hasn't joined by then is removed. Static members stay until
  their sessions end.
- ``initial_rebalance_delay`` says how long a rebalance waits for members that the group doesn't
  know yet.
- The assignment is written before members get it; ``ClassicGroup.take_in`` puts it in force.

Source: GroupMetadataManager of Kafka (the classicGroup… methods); KIP-345, KIP-394.
"""

from functools import partial

from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.classic_member import Member
from kwire.coordinator.effects import Effects, Turn, Waiter
from kwire.coordinator.initial_rebalance_delay import initial_delay
from kwire.coordinator.records import group_metadata
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member may wait for its first generation, in which it can't send heartbeats."""


def join_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The answer to a member of the current generation; the leader's lists all members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=group.joined_members() if member.member_id == group.leader else [],
    )


def sync_response(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """The answer to a member of the current generation: its assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )


def add_and_rebalance(
    group: ClassicGroup, member: Member, protocol_type: str, waiter: Waiter, reason: str, turn: Turn
) -> None:
    """Add a new member, which waits for the rebalance that it causes."""
    member.joining = waiter
    member.is_new = True
    member.session_deadline_ms = turn.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
    group.add(member, protocol_type)
    group.record_newcomer(turn.now_ms)
    prepare_rebalance(group, reason, turn)


def rejoin_and_rebalance(
    group: ClassicGroup, member: Member, waiter: Waiter, reason: str, turn: Turn
) -> None:
    """Let a member join again; it waits for the rebalance."""
    if member.joining is not None:
        # The member has asked a second time, so it no longer reads the first answer.
        fail_join(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
    member.joining = waiter
    if not member.is_new:
        member.renew_session(turn.now_ms)
    prepare_rebalance(group, reason, turn)


def prepare_rebalance(group: ClassicGroup, reason: str, turn: Turn) -> None:
    """Begin a rebalance unless one is under way, and complete it if all members have joined.

    The reason may be empty if all members have to join anyway.
    """
    if group.state is GroupState.COMPLETING_REBALANCE:
        # Members keep their assignments until then: those that rebalance cooperatively still have
        # their partitions, and keep them if the group becomes one of the consumer protocol.
        for member in group.members.values():
            fail_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
    if group.state is not GroupState.PREPARING_REBALANCE:
        _begin_rebalance(group, reason, turn)
    elif reason:
        turn.note(group.group_id, reason)
    maybe_complete_join(group, turn)


def _begin_rebalance(group: ClassicGroup, reason: str, turn: Turn) -> None:
    timeout_ms = group.rebalance_timeout_ms
    group.rebalance_delay = group.rebalance_rate.delay_if_busy(turn.now_ms)
    group.is_first_rebalance = group.state is GroupState.EMPTY
    if group.is_first_rebalance:
        group.rebalance_delay = group.rebalance_delay or initial_delay(
            turn, timeout_ms, group.announced
        )
    turn.note(
        group.group_id,
        f"{reason}; a rebalance begins, generation {group.generation} was {group.state.value}",
        for_debug=group.is_first_rebalance or not group.members,
    )
    group.move_to(GroupState.PREPARING_REBALANCE, turn)
    group.pending_syncs.clear()
    group.sync_deadline_ms = None
    group.rebalance_deadline_ms = turn.now_ms + timeout_ms


def maybe_complete_join(group: ClassicGroup, turn: Turn) -> None:
    """Complete the rebalance if all members have joined."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay = group.rebalance_delay
    if delay is not None and group.members:
        if not delay.is_over(turn.now_ms, has_pending=bool(group.pending_joins)):
            return
        if group.is_first_rebalance:
            complete_join(group, turn)
            return
        group.rebalance_delay = None
    if group.all_have_joined:
        complete_join(group, turn)


def complete_join(group: ClassicGroup, turn: Turn) -> None:
    """Begin the next generation with the members that have joined."""
    group.rebalance_delay = None
    group.rebalance_deadline_ms = None
    _drop_dynamic_members_that_stayed_away(group, turn)
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and none has come back: wait until their sessions end.
        group.rebalance_deadline_ms = turn.now_ms + max(1, group.rebalance_timeout_ms)
        return
    group.generation += 1
    if not group.members:
        group.move_to(GroupState.EMPTY, turn)
        group.protocol = None
        turn.effects.records.append(group_metadata(group.group_id, group.state_record()))
        text = f"generation {group.generation} has no members left"
        turn.note(group.group_id, text, for_debug=True)
        return
    group.protocol = group.select_protocol()
    count = len(group.members)
    turn.note(
        group.group_id,
        f"generation {group.generation} has {count} member{'s' * (count > 1)}, {group.leader} "
        f"assigns by {group.protocol}; joining took {turn.now_ms - group.state_since_ms} ms",
    )
    group.move_to(GroupState.COMPLETING_REBALANCE, turn)
    group.sync_deadline_ms = turn.now_ms + group.rebalance_timeout_ms
    group.pending_syncs = set(group.members)
    for member in group.members.values():
        member.is_new = False
        member.renew_session(turn.now_ms)
        if member.joining is not None:
            waiter, member.joining = member.joining, None
            turn.effects.reply(waiter, join_response(group, member))


def _drop_dynamic_members_that_stayed_away(group: ClassicGroup, turn: Turn) -> None:
    for member in list(group.members.values()):
        if member.joining is None and member.group_instance_id is None:
            group.remove(member.member_id)
            turn.note(group.group_id, f"{member.member_id} did not join again in time, and is out")


def sync(
    group: ClassicGroup, member: Member, assignments: dict[str, bytes], waiter: Waiter, turn: Turn
) -> None:
    """Answer a member with its assignment; the leader's request holds all assignments.

    Raises KafkaError (REBALANCE_IN_PROGRESS) if the next rebalance has begun.
    """
    member.renew_session(turn.now_ms)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.discard(member.member_id)
    if not group.pending_syncs:
        group.sync_deadline_ms = None
    if group.state is GroupState.STABLE:
        turn.effects.reply(waiter, sync_response(group, member.assignment))
        return
    fail_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
    member.syncing = waiter
    if member.member_id == group.leader:
        _assign(group, assignments, turn)


def _assign(group: ClassicGroup, assignments: dict[str, bytes], turn: Turn) -> None:
    """Write the leader's assignments, and answer the members that wait for theirs."""
    took_ms = turn.now_ms - group.state_since_ms
    text = f"generation {group.generation} is assigned, after {took_ms} ms"
    turn.note(group.group_id, text, for_debug=len(group.members) == 1)
    turn.effects.records.append(group_metadata(group.group_id, group.to_record(assignments)))
    turn.effects.undo.append(partial(_assignment_was_lost, group, group.generation))
    for member in group.members.values():
        if member.syncing is not None:
            waiter, member.syncing = member.syncing, None
            member.renew_session(turn.now_ms)
            assignment = assignments.get(member.member_id, b"")
            turn.effects.reply(waiter, sync_response(group, assignment))


def _assignment_was_lost(group: ClassicGroup, generation: int, turn: Turn) -> None:
    """Begin a new rebalance, because the assignment couldn't be written."""
    if group.generation == generation and group.state is GroupState.COMPLETING_REBALANCE:
        prepare_rebalance(group, "the assignment could not be written", turn)


def remove_member(group: ClassicGroup, member: Member, turn: Turn) -> None:
    """Remove a member; ``after_removal`` then shares its partitions out."""
    fail_join(member, ErrorCode.UNKNOWN_MEMBER_ID, turn.effects)
    fail_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, turn.effects)
    group.remove(member.member_id)


def after_removal(group: ClassicGroup, reason: str, turn: Turn) -> None:
    """Rebalance after a removal, or continue the rebalance that waited for the removed members."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(group, reason, turn)
    else:
        turn.note(group.group_id, reason, for_debug=not group.members)
        maybe_complete_join(group, turn)


def fail_join(member: Member, code: ErrorCode, effects: Effects) -> None:
    """Answer with an error, if the member waits for a generation."""
    if member.joining is not None:
        waiter, member.joining = member.joining, None
        effects.reply(waiter, JoinGroupResponse(error_code=code, member_id=member.member_id))


def fail_sync(member: Member, code: ErrorCode, effects: Effects) -> None:
    """Answer with an error, if the member waits for its assignment."""
    if member.syncing is not None:
        waiter, member.syncing = member.syncing, None
        effects.reply(waiter, SyncGroupResponse(error_code=code))


def expire(group: ClassicGroup, turn: Turn) -> None:
    """Do the overdue work of a group."""
    now_ms = turn.now_ms
    for member_id, deadline in list(group.pending_joins.items()):
        if deadline <= now_ms:
            del group.pending_joins[member_id]
    for member in list(group.members.values()):
        if not member.counts_as_heard and member.session_deadline_ms <= now_ms:
            remove_member(group, member, turn)
            after_removal(group, f"the session of {member.member_id} has ended", turn)
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
        _expire_sync(group, turn)
    deadline_ms = group.rebalance_deadline_ms
    if group.rebalance_delay is None and deadline_ms is not None and deadline_ms <= now_ms:
        complete_join(group, turn)
    else:
        maybe_complete_join(group, turn)


def _expire_sync(group: ClassicGroup, turn: Turn) -> None:
    """Remove members that joined but sent no SyncGroup in time."""
    group.sync_deadline_ms = None
    late = sorted(group.pending_syncs)
    for member_id in late:
        group.remove(member_id)
    prepare_rebalance(group, f"no SyncGroup in time from {', '.join(late)}", turn)
