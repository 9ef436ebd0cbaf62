"""Who may join a classic group, and as whom: new, returning, and static members.

Rules:

- A member without an id is given one; from version 4 on it has to join again with it (KIP-394), so
  that a client which gave up leaves no member behind.
- A static member is known by its instance: when it comes back it takes the place of its former
  self, which is fenced, and causes no rebalance if nothing else has changed (KIP-345).

Source: classicGroupJoin… of GroupMetadataManager.
"""

from typing import NamedTuple

from kwire.coordinator import classic_protocol as protocol
from kwire.coordinator.classic_group import ClassicGroup, GroupState, Member, Protocols
from kwire.coordinator.effects import Effects, Waiter
from kwire.coordinator.records import group_metadata
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

REQUIRES_KNOWN_ID_SINCE = 4
NULL_NAMES_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9


class Client(NamedTuple):
    """Who asks: its client id, its host as Kafka prints it, the version of its request."""

    client_id: str
    host: str
    api_version: int


class MemberIdRequired(KafkaError):
    """The member shall join again with the id it is given (KIP-394)."""

    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.MEMBER_ID_REQUIRED)
        self.member_id = member_id


class JoinAttempt(NamedTuple):
    """A request to join, the id it gets if it has none, and who waits for the answer."""

    request: JoinGroupRequest
    client: Client
    new_id: str
    waiter: Waiter
    initial_delay_ms: int
    now_ms: int

    @property
    def protocols(self) -> Protocols:
        """The assignors the member offers."""
        return tuple((p.name, p.metadata) for p in self.request.protocols)

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


def join(group: ClassicGroup, attempt: JoinAttempt, max_size: int, effects: Effects) -> None:
    """Let a member in, or raise the KafkaError that says why not."""
    request = attempt.request
    _check_size(group, request.member_id, max_size)
    if not group.supports(request.protocol_type, attempt.protocols):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not group.members:
        group.protocol_type = request.protocol_type
    if request.member_id:
        _join_with_id(group, attempt, effects)
    else:
        _join_without_id(group, attempt, effects)


def _check_size(group: ClassicGroup, member_id: str, max_size: int) -> None:
    if member_id in group.members or member_id in group.pending_joins:
        return
    if len(group.members) + len(group.pending_joins) >= max_size:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)


def _join_without_id(group: ClassicGroup, attempt: JoinAttempt, effects: Effects) -> None:
    request = attempt.request
    instance_id = request.group_instance_id
    if instance_id is not None and instance_id in group.static_members:
        _replace_static(group, instance_id, attempt, effects)
        return
    if instance_id is None and attempt.client.api_version >= REQUIRES_KNOWN_ID_SINCE:
        group.pending_joins[attempt.new_id] = attempt.now_ms + request.session_timeout_ms
        raise MemberIdRequired(attempt.new_id)
    _add(group, attempt.member(attempt.new_id), attempt, effects)


def _add(group: ClassicGroup, member: Member, attempt: JoinAttempt, effects: Effects) -> None:
    protocol.add_and_rebalance(
        group, member, attempt.waiter, attempt.initial_delay_ms, attempt.now_ms, effects
    )


def _join_with_id(group: ClassicGroup, attempt: JoinAttempt, effects: Effects) -> None:
    request = attempt.request
    if request.member_id in group.pending_joins:
        _add(group, attempt.member(request.member_id), attempt, effects)
        return
    member = protocol.validate_member(group, request.member_id, request.group_instance_id)
    if group.state is GroupState.EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    keeps_generation = member.protocols == attempt.protocols and (
        group.state is GroupState.COMPLETING_REBALANCE
        or (group.state is GroupState.STABLE and member.member_id != group.leader)
    )
    if keeps_generation:
        protocol.renew_session(member, attempt.now_ms)
        effects.reply(attempt.waiter, protocol.join_response(group, member))
        return
    described = attempt.member(request.member_id)
    member.protocols = described.protocols
    member.session_timeout_ms = described.session_timeout_ms
    member.rebalance_timeout_ms = described.rebalance_timeout_ms
    _rejoin(group, member, attempt, effects)


def _rejoin(group: ClassicGroup, member: Member, attempt: JoinAttempt, effects: Effects) -> None:
    protocol.update_and_rebalance(
        group, member, attempt.waiter, attempt.initial_delay_ms, attempt.now_ms, effects
    )


def _replace_static(
    group: ClassicGroup, instance_id: str, attempt: JoinAttempt, effects: Effects
) -> None:
    """A static member came back."""
    old_id = group.static_members[instance_id]
    old_leader = group.leader
    protocol.fail_waits(group.members[old_id], ErrorCode.FENCED_INSTANCE_ID, effects)
    member = group.replace_static(old_id, attempt.new_id)
    old_subscription = member.metadata(group.protocol)
    described = attempt.member(attempt.new_id)
    member.protocols = described.protocols
    member.client_id, member.client_host = described.client_id, described.client_host
    member.session_timeout_ms = described.session_timeout_ms
    member.rebalance_timeout_ms = described.rebalance_timeout_ms
    protocol.renew_session(member, attempt.now_ms)
    if (
        group.state is not GroupState.STABLE
        or group.protocol != group.select_protocol()
        or old_subscription != member.metadata(group.protocol)
    ):
        _rejoin(group, member, attempt, effects)
        return
    assignments = {m.member_id: m.assignment for m in group.members.values()}
    effects.records.append(group_metadata(group.group_id, group.to_record(assignments)))
    response = protocol.join_response(group, member)
    if attempt.client.api_version >= SKIP_ASSIGNMENT_SINCE:
        response.skip_assignment = group.leader == attempt.new_id
    else:
        # An older leader must not assign anew, so it is told that its former self leads.
        response.leader, response.members = old_leader or "", []
    effects.reply(attempt.waiter, response)


def join_error(error: KafkaError, request: JoinGroupRequest, api_version: int) -> JoinGroupResponse:
    """The answer to a join that failed; names are null from version 7 on and empty before."""
    member_id = error.member_id if isinstance(error, MemberIdRequired) else request.member_id
    return JoinGroupResponse(
        error_code=error.code,
        member_id=member_id,
        protocol_name=None if api_version >= NULL_NAMES_SINCE else "",
    )
