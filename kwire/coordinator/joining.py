"""How members join a classic group: new, returning, and static members.

Rules:

- A member without an id gets one. From version 4 on it has to join again with this id (KIP-394), so
  that a client which gave up leaves no member behind.
- A static member is known by its instance id. When it comes back without a member id, it gets a new
  member id, and the old one is fenced. That causes no rebalance if nothing else has changed
  (KIP-345). Kafka compares only which protocol is chosen, so a member with another subscription
  keeps partitions that it no longer wants. In kwire another subscription causes a rebalance.
- A member that joins again without a change gets the present generation. If the leader of a stable
  group does so, the group rebalances, because the leader may see other partitions than before.
- A static leader that came back keeps its old assignment and doesn't assign anew (KIP-814).

Source: classicGroupJoin… of GroupMetadataManager.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from kwire.coordinator import classic_protocol as protocol
from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.classic_member import Member, Protocols
from kwire.coordinator.effects import Turn, Waiter
from kwire.coordinator.records import group_metadata
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

REQUIRES_KNOWN_ID_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
MAX_REASON_LENGTH = 255

_ASSIGNED_OR_SOON = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)

MAX_PENDING_JOINS = 10_000
"""How many pending ids a group remembers; a client with an older id has to begin anew."""

MAX_PENDING_CHARACTERS = 1_048_576
"""How many characters the pending ids of a group have together; fewer long ids fit."""


Visible: TypeAlias = Callable[[frozenset[str]], frozenset[str]]
"""Returns the given topics without those whose names a client may not know."""


class Client(NamedTuple):
    """The sender: its client id, its host as Kafka prints it, and the version of its request.

    ``visible`` is None if every client may know all topics. Equal clients have equal ``visible``.
    """

    client_id: str
    host: str
    api_version: int
    visible: Visible | None = None


class JoinAttempt(NamedTuple):
    """A request to join, the id for a member without one, and the waiter for the answer.

    ``protocols`` are the assignors that the member offers.
    """

    request: JoinGroupRequest
    client: Client
    new_id: str
    waiter: Waiter
    protocols: Protocols

    @property
    def client_reason(self) -> str:
        """The client's reason to join (KIP-800)."""
        reason = self.request.reason
        return f"reason: {reason[:MAX_REASON_LENGTH]}" if reason else "no reason given"

    def member(self, member_id: str) -> Member:
        """A member as the request describes it."""
        request = self.request
        rebalance_timeout_ms = request.rebalance_timeout_ms
        return Member(
            member_id,
            request.group_instance_id,
            self.client.client_id,
            self.client.host,
            request.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
            request.session_timeout_ms,
            self.protocols,
        )


def join(group: ClassicGroup, attempt: JoinAttempt, turn: Turn) -> None:
    """Let a member join.

    Raises KafkaError: INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    request = attempt.request
    if not _has_room(group, request.member_id, turn.settings.max_size):
        _turn_away(group, attempt, turn)
    elif not group.supports(request.protocol_type, attempt.protocols):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif request.member_id:
        _join_with_id(group, attempt, turn)
    else:
        _join_without_id(group, attempt, turn)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether one more member may join.

    During a rebalance, only the members that have joined it count. So if ``group.max.size`` has
    become smaller, the members that join last are refused.
    """
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is not GroupState.PREPARING_REBALANCE:
        return member is not None or len(group.members) < max_size
    if member is not None and member.joining is not None:
        return True
    return sum(m.joining is not None for m in group.members.values()) < max_size


def _turn_away(group: ClassicGroup, attempt: JoinAttempt, turn: Turn) -> None:
    member_id = attempt.request.member_id
    refusal = JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
    turn.note(group.group_id, f"{member_id or attempt.new_id} is refused: group.max.size reached")
    turn.effects.reply(attempt.waiter, refusal)
    group.pending_joins.pop(member_id, None)
    if member_id in group.members:
        group.remove(member_id)
    protocol.maybe_complete_join(group, turn)


def _join_without_id(group: ClassicGroup, attempt: JoinAttempt, turn: Turn) -> None:
    request = attempt.request
    instance_id = request.group_instance_id
    if instance_id is not None and instance_id in group.static_members:
        _replace_static(group, instance_id, attempt, turn)
    elif instance_id is None and attempt.client.api_version >= REQUIRES_KNOWN_ID_SINCE:
        _expect(group, attempt.new_id, turn.now_ms + request.session_timeout_ms)
        group.record_newcomer(turn.now_ms)
        required = JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=attempt.new_id
        )
        turn.effects.reply(attempt.waiter, required)
    else:
        _add(group, attempt.new_id, attempt, turn)


def _expect(group: ClassicGroup, member_id: str, until_ms: int) -> None:
    """Remember the id with which a client is to join; beyond the limits, forget the oldest ids."""
    pending = group.pending_joins
    most = min(MAX_PENDING_JOINS, 1 + MAX_PENDING_CHARACTERS // len(member_id))
    while len(pending) >= most:
        del pending[next(iter(pending))]
    pending[member_id] = until_ms
    assert len(pending) <= MAX_PENDING_JOINS, group.group_id


def _add(group: ClassicGroup, member_id: str, attempt: JoinAttempt, turn: Turn) -> None:
    member = attempt.member(member_id)
    protocol_type = attempt.request.protocol_type
    client = attempt.client
    reason = (
        f"{member_id} joins (client {client.client_id} at {client.host}, {attempt.client_reason})"
    )
    protocol.add_and_rebalance(group, member, protocol_type, attempt.waiter, reason, turn)


def _join_with_id(group: ClassicGroup, attempt: JoinAttempt, turn: Turn) -> None:
    request = attempt.request
    # Only dynamic members are given pending ids, so a static member may not join with one.
    if request.member_id in group.pending_joins and request.group_instance_id is None:
        _add(group, request.member_id, attempt, turn)
        return
    member = group.validate_member(request.member_id, request.group_instance_id)
    is_the_same = member.protocols == attempt.protocols
    leads_stable_group = group.state is GroupState.STABLE and member.member_id == group.leader
    if is_the_same and not leads_stable_group and group.state in _ASSIGNED_OR_SOON:
        # The member may have missed the answer to its first request; the generation stays.
        member.renew_session(turn.now_ms)
        turn.effects.reply(attempt.waiter, protocol.join_response(group, member))
        return
    reason = f"{member.member_id} joins with another subscription ({attempt.client_reason})"
    if is_the_same:
        reason = ""
    if leads_stable_group:
        # The input of the leader's assignment may have changed, like the partitions of a topic.
        reason = f"the leader {member.member_id} joins again ({attempt.client_reason})"
    described = attempt.member(request.member_id)
    group.change_protocols(member, described.protocols)
    member.session_timeout_ms = described.session_timeout_ms
    member.rebalance_timeout_ms = described.rebalance_timeout_ms
    protocol.rejoin_and_rebalance(group, member, attempt.waiter, reason, turn)


def _replace_static(
    group: ClassicGroup, instance_id: str, attempt: JoinAttempt, turn: Turn
) -> None:
    """Replace a static member's former entry, after the member came back."""
    old = group.members[group.static_members[instance_id]]
    old_leader = group.leader
    protocol.fail_join(old, ErrorCode.FENCED_INSTANCE_ID, turn.effects)
    protocol.fail_sync(old, ErrorCode.FENCED_INSTANCE_ID, turn.effects)
    new = attempt.member(attempt.new_id)
    new.assignment = old.assignment
    group.replace_static(old, new)
    new.renew_session(turn.now_ms)
    if (
        group.state is not GroupState.STABLE
        or group.protocol != group.select_protocol()
        or old.metadata(group.protocol) != new.metadata(group.protocol)
    ):
        reason = f"static member {instance_id} came back ({attempt.client_reason})"
        protocol.rejoin_and_rebalance(group, new, attempt.waiter, reason, turn)
        return
    turn.note(group.group_id, f"static member {instance_id} came back, and keeps its assignment")
    turn.effects.records.append(group_metadata(group.group_id, group.state_record()))
    turn.effects.undo.append(partial(_take_replacement_back, group, old, new))
    response = protocol.join_response(group, new)
    if attempt.client.api_version >= SKIP_ASSIGNMENT_SINCE:
        response.skip_assignment = group.leader == attempt.new_id
    else:
        # Without that field, only another leader id keeps the client from assigning anew.
        response.leader, response.members = old_leader or "", []
    turn.effects.reply(attempt.waiter, response)


def _take_replacement_back(group: ClassicGroup, old: Member, new: Member, turn: Turn) -> None:
    if group.members.get(new.member_id) is new:
        group.replace_static(new, old)
        old.renew_session(turn.now_ms)
