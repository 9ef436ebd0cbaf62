"""The classic rebalance protocol: how a generation of a group comes about, and how it ends.

Rules:

- Who joins or syncs too early waits; the answer is one of the effects of a later operation.
- A rebalance is completed when everybody has joined again, or when the longest rebalance timeout
  has passed; who hasn't come by then is out. Static members stay until their session ends.
- ``settling`` says how long a rebalance waits for more members than it knows of.
- The assignment is written before anyone is told; ``ClassicGroup.take_in`` makes it hold.

Source: GroupMetadataManager of Kafka (the classicGroup… methods); KIP-345, KIP-394.
"""

from functools import partial

from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.classic_member import Member
from kwire.coordinator.effects import Effects, Turn, Waiter
from kwire.coordinator.records import group_metadata
from kwire.coordinator.settling import first_rebalance
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member may wait for its first generation; it can't send heartbeats meanwhile."""


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


def sync_response(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """The answer to a member of the current generation: what it is to consume."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )


def add_and_rebalance(
    group: ClassicGroup, member: Member, protocol_type: str, waiter: Waiter, reason: str, turn: Turn
) -> None:
    """Take in a new member, which waits for the rebalance it causes."""
    member.joining = waiter
    member.is_new = True
    member.session_deadline_ms = turn.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
    group.add(member, protocol_type)
    group.note_newcomer(turn.now_ms)
    prepare_rebalance(group, reason, turn)


def rejoin_and_rebalance(
    group: ClassicGroup, member: Member, waiter: Waiter, reason: str, turn: Turn
) -> None:
    """A member joins again; it waits for the rebalance."""
    if member.joining is not None:
        # It asked a second time, so nobody reads the first answer any more.
        fail_join(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
    member.joining = waiter
    if not member.is_new:
        member.renew_session(turn.now_ms)
    prepare_rebalance(group, reason, turn)


def prepare_rebalance(group: ClassicGroup, reason: str, turn: Turn) -> None:
    """Begin a rebalance unless one is under way, and complete it if nobody is waited for.

    The reason may be empty where everybody has to join anyway.
    """
    if group.state is GroupState.COMPLETING_REBALANCE:
        # What they were assigned before stays: members that rebalance cooperatively have it still,
        # and take it along when their group becomes one of the consumer protocol.
        for member in group.members.values():
            fail_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
    if group.state is not GroupState.PREPARING_REBALANCE:
        _begin_rebalance(group, reason, turn)
    elif reason:
        turn.note(group.group_id, reason)
    maybe_complete_join(group, turn)


def _begin_rebalance(group: ClassicGroup, reason: str, turn: Turn) -> None:
    timeout_ms = group.rebalance_timeout_ms
    group.settling = group.pace.note_rebalance(turn.now_ms)
    group.is_first_rebalance = group.state is GroupState.EMPTY
    if group.is_first_rebalance:
        group.settling = group.settling or first_rebalance(turn, timeout_ms, group.announced)
    turn.note(
        group.group_id,
        f"{reason}; a rebalance begins, generation {group.generation} was {group.state.value}",
    )
    group.move_to(GroupState.PREPARING_REBALANCE, turn)
    group.pending_syncs.clear()
    group.sync_deadline_ms = None
    group.rebalance_deadline_ms = turn.now_ms + timeout_ms


def maybe_complete_join(group: ClassicGroup, turn: Turn) -> None:
    """Complete the rebalance if nobody is waited for any more."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    settling = group.settling
    if settling is not None and group.members:
        if not settling.is_over(turn.now_ms, has_pending=bool(group.pending_joins)):
            return
        if group.is_first_rebalance:
            complete_join(group, turn)
            return
        group.settling = None
    if group.all_have_joined:
        complete_join(group, turn)


def complete_join(group: ClassicGroup, turn: Turn) -> None:
    """Begin the next generation with those who have joined."""
    group.settling = None
    group.rebalance_deadline_ms = None
    _drop_dynamic_members_that_stayed_away(group, turn)
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none has come back: wait for their sessions to end.
        group.rebalance_deadline_ms = turn.now_ms + max(1, group.rebalance_timeout_ms)
        return
    group.generation += 1
    if not group.members:
        group.move_to(GroupState.EMPTY, turn)
        group.protocol = None
        turn.effects.records.append(group_metadata(group.group_id, group.state_record()))
        turn.note(group.group_id, f"nobody is left in generation {group.generation}")
        return
    group.protocol = group.select_protocol()
    turn.note(
        group.group_id,
        f"generation {group.generation} has {len(group.members)} member(s), {group.leader} "
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
    """A member wants its assignment; the leader brings everybody's.

    Raises KafkaError (REBALANCE_IN_PROGRESS) when the next generation has begun to form.
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
    """Write what the leader decided and tell those who wait."""
    took_ms = turn.now_ms - group.state_since_ms
    turn.note(group.group_id, f"generation {group.generation} is assigned, after {took_ms} ms")
    turn.effects.records.append(group_metadata(group.group_id, group.to_record(assignments)))
    turn.effects.undo.append(partial(_assignment_was_lost, group, group.generation))
    for member in group.members.values():
        if member.syncing is not None:
            waiter, member.syncing = member.syncing, None
            member.renew_session(turn.now_ms)
            assignment = assignments.get(member.member_id, b"")
            turn.effects.reply(waiter, sync_response(group, assignment))


def _assignment_was_lost(group: ClassicGroup, generation: int, turn: Turn) -> None:
    """The assignment couldn't be written: everybody has to begin anew."""
    if group.generation == generation and group.state is GroupState.COMPLETING_REBALANCE:
        prepare_rebalance(group, "the assignment could not be written", turn)


def remove_member(group: ClassicGroup, member: Member, turn: Turn) -> None:
    """Let a member go; ``after_removal`` has the others share what it had."""
    fail_join(member, ErrorCode.UNKNOWN_MEMBER_ID, turn.effects)
    fail_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, turn.effects)
    group.remove(member.member_id)


def after_removal(group: ClassicGroup, reason: str, turn: Turn) -> None:
    """Members are gone: rebalance, or go on with the rebalance that had to wait for them."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(group, reason, turn)
    else:
        turn.note(group.group_id, reason)
        maybe_complete_join(group, turn)


def fail_join(member: Member, code: ErrorCode, effects: Effects) -> None:
    """Answer with an error if the member waits for a generation."""
    if member.joining is not None:
        waiter, member.joining = member.joining, None
        effects.reply(waiter, JoinGroupResponse(error_code=code, member_id=member.member_id))


def fail_sync(member: Member, code: ErrorCode, effects: Effects) -> None:
    """Answer with an error if the member waits for its assignment."""
    if member.syncing is not None:
        waiter, member.syncing = member.syncing, None
        effects.reply(waiter, SyncGroupResponse(error_code=code))


def expire(group: ClassicGroup, turn: Turn) -> None:
    """Do what is due by now."""
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
    if group.settling is None and deadline_ms is not None and deadline_ms <= now_ms:
        complete_join(group, turn)
    else:
        maybe_complete_join(group, turn)


def _expire_sync(group: ClassicGroup, turn: Turn) -> None:
    """Members that joined but never asked for their assignment are out."""
    group.sync_deadline_ms = None
    late = sorted(group.pending_syncs)
    for member_id in late:
        group.remove(member_id)
    prepare_rebalance(group, f"no SyncGroup in time from {', '.join(late)}", turn)
