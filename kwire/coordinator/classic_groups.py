"""The requests of clients in groups of the classic protocol: join, sync, heartbeat, leave.

Rules:

- Every operation takes a request and ``now_ms``, and puts records and replies into ``Effects``. A
  KafkaError is the answer to the request, and then nothing has changed.
- Assignments and deletions take effect only by ``replay``, both in normal work and at loading.
  Members that are joining at the moment are not kept in records.
- Members of this protocol see a group of another kind as unknown.
"""

from kwire.coordinator import classic_protocol as protocol
from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.effects import Effects, Turn, Waiter
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.initial_rebalance_delay import AnnouncedClients
from kwire.coordinator.joining import Client, JoinAttempt, join
from kwire.coordinator.records import (
    GroupMetadataValue,
    WrittenGroup,
    group_metadata,
    parse_group_metadata_key,
    parse_value,
)
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest
from kwire.record.records import Record

MAX_ID_BYTES = 0x7FFF
"""The longest string in a record; a client id longer than this leaves no room for the rest."""


class ClassicGroups:
    """The groups of the classic protocol of one coordinator."""

    def __init__(self, registry: GroupRegistry) -> None:
        self._registry = registry
        self._announced = AnnouncedClients()

    def announce(self, group_id: str, connection_id: int, now_ms: int) -> None:
        """Note that a client asks for a group's coordinator, and may be about to join the group."""
        self._announced.record_lookup(group_id, connection_id, now_ms)
        group = self._registry.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            group.announced = self._announced.count_connections(group_id, now_ms)
            group.record_newcomer(now_ms)

    def join(
        self, request: JoinGroupRequest, client: Client, waiter: Waiter, now_ms: int
    ) -> Effects:
        """Join a member; the answer comes when the rebalance is complete, or at once.

        Raises KafkaError: INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, INCONSISTENT_GROUP_PROTOCOL,
        FENCED_INSTANCE_ID, and INVALID_REQUEST for a client id that is too long for an id.
        """
        settings = self._registry.settings
        timeout_ms = request.session_timeout_ms
        if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        known = self._registry.groups.get(request.group_id)
        if known is not None and not isinstance(known, ClassicGroup):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        new_id = ""
        if not request.member_id:
            new_id = f"{request.group_instance_id or client.client_id}-{self._registry.new_id()}"
            if len(new_id.encode()) > MAX_ID_BYTES:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
        protocols = tuple([(p.name, p.metadata) for p in request.protocols])
        attempt = JoinAttempt(request, client, new_id, waiter, protocols)
        turn = self._registry.turn(now_ms)
        announced = self._announced.count_connections(request.group_id, now_ms)
        if known is None:
            known = self._join_first(attempt, turn, announced)
        else:
            known.announced = announced
            join(known, attempt, turn)
        self._registry.reschedule(known)
        return turn.effects

    def _join_first(self, attempt: JoinAttempt, turn: Turn, announced: int) -> ClassicGroup:
        """Make a group for its first member, and write its record even if no other member joins."""
        group_id = attempt.request.group_id
        if attempt.request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._registry.check_room()
        group = ClassicGroup(group_id, turn)
        group.announced = announced
        turn.effects.records.append(group_metadata(group_id, group.state_record()))
        join(group, attempt, turn)
        self._registry.groups[group_id] = group
        turn.effects.undo.append(lambda _: self._forget(group))
        return group

    def _forget(self, group: ClassicGroup) -> None:
        self._registry.groups.pop(group.group_id, None)

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> Effects:
        """Answer a member with its assignment, once the leader has sent the assignments.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
        """
        group = self._group(request.group_id)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type not in (None, group.protocol_type) or (
            request.protocol_name is not None
            and group.protocol is not None
            and request.protocol_name != group.protocol
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        turn = self._registry.turn(now_ms)
        assignments = {a.member_id: a.assignment for a in request.assignments}
        protocol.sync(group, member, assignments, waiter, turn)
        self._registry.reschedule(group)
        return turn.effects

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> None:
        """Renew a member's session.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, and
        REBALANCE_IN_PROGRESS to make the member join again.
        """
        group = self._group(request.group_id)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        member.renew_session(now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(
        self, group_id: str, leaving: list[MemberIdentity], waiter: Waiter, now_ms: int
    ) -> Effects:
        """Remove several members; each one has its own result in the LeaveGroupResponse."""
        group = self._registry.groups.get(group_id)
        turn = self._registry.turn(now_ms)
        answers, gone = [], []
        for identity in leaving:
            answer = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            answers.append(answer)
            try:
                if not isinstance(group, ClassicGroup):
                    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
                gone.append(_let_go(group, identity, turn))
            except KafkaError as error:
                answer.error_code = error.code
        if isinstance(group, ClassicGroup) and gone:
            protocol.after_removal(group, f"{', '.join(gone)} left", turn)
            self._registry.reschedule(group)
        turn.effects.reply(waiter, LeaveGroupResponse(members=answers))
        return turn.effects

    def _group(self, group_id: str) -> ClassicGroup:
        group = self._registry.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # The operations that the coordinator calls for every kind of group

    def expire(self, group: ClassicGroup, turn: Turn) -> None:
        """Do the overdue work of a group."""
        protocol.expire(group, turn)

    def begin(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin after loading: a group that is now larger than ``group.max.size`` rebalances."""
        for member in group.members.values():
            member.renew_session(turn.now_ms)
        if len(group.members) > turn.settings.max_size:
            protocol.prepare_rebalance(group, "the group is larger than group.max.size", turn)

    def end(self, group: ClassicGroup, code: ErrorCode, effects: Effects) -> None:
        """Send the error ``code`` to all waiting members, because this coordinator ends."""
        for member in group.members.values():
            protocol.fail_join(member, code, effects)
            protocol.fail_sync(member, code, effects)

    def replay(self, kind: int, record: Record, now_ms: int, *, loading: bool) -> None:
        """Apply the record of a generation; a record creates a group only at loading."""
        assert record.key is not None
        group_id = parse_group_metadata_key(record.key).group
        groups = self._registry.groups
        known = groups.get(group_id)
        if record.value is None:
            if isinstance(known, ClassicGroup):
                del groups[group_id]
            return
        metadata = parse_value(GroupMetadataValue, record.value)
        turn = self._registry.turn(now_ms)
        if loading:
            groups[group_id] = ClassicGroup.from_record(group_id, metadata, turn)
        elif isinstance(known, ClassicGroup):
            known.take_in(metadata, turn)

    def take_in(self, content: WrittenGroup, now_ms: int) -> None:
        """Apply a generation whose record was just written, as ``replay`` would do."""
        known = self._registry.groups.get(content.group)
        if isinstance(known, ClassicGroup):
            known.take_in(content.value, self._registry.turn(now_ms))


def _let_go(group: ClassicGroup, identity: MemberIdentity, turn: Turn) -> str:
    """Remove a member from its group; a static member may be named by its instance alone.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if group.pending_joins.pop(member_id, None) is not None:
        return member_id
    if instance_id is not None and not member_id:
        member_id = group.static_members.get(instance_id, "")
    member = group.validate_member(member_id, instance_id)
    protocol.remove_member(group, member, turn)
    return f"{member_id} ({identity.reason or 'no reason given'})"
