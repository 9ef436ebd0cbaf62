"""The coordinator of the groups that live in one partition of ``__consumer_offsets``.

Rules:

- Every operation takes a request and ``now_ms`` and leaves what it leads to in ``Effects``; a
  KafkaError is the answer to the one who asked, and then nothing has changed.
- Committed offsets, assignments and deletions come true by ``replay`` alone, in normal work as when
  a partition is loaded. Who is joining at the moment isn't kept.
- ``next_deadline_ms`` says when ``tick`` has something to do.
"""

import heapq
from collections.abc import Callable

from kwire.coordinator import classic_protocol as protocol
from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.effects import Effects, Turn, Waiter
from kwire.coordinator.expiry import has_expired, kept_topics
from kwire.coordinator.joining import Client, JoinAttempt, join
from kwire.coordinator.offsets import CommittedOffset, OffsetStore
from kwire.coordinator.records import (
    GROUP_METADATA_TYPE,
    LEGACY_OFFSET_COMMIT_TYPE,
    OFFSET_COMMIT_TYPE,
    GroupMetadataValue,
    OffsetCommitValue,
    group_metadata,
    offset_commit,
    parse_group_metadata_key,
    parse_offset_commit_key,
    parse_value,
    record_type,
)
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest
from kwire.record.records import Record

MAX_ID_BYTES = 0x7FFF
"""What a string of a record may hold; a client id leaves less room than that for the rest."""


class GroupCoordinator:
    """Groups and their offsets. ``new_id`` gives the random part of a member's id."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore()
        self._new_id = new_id
        self._schedule: list[tuple[int, str]] = []

    # The classic protocol

    def join(
        self, request: JoinGroupRequest, client: Client, waiter: Waiter, now_ms: int
    ) -> Effects:
        """A member joins; it is answered when the rebalance is complete, or at once.

        Raises KafkaError: INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, INCONSISTENT_GROUP_PROTOCOL,
        FENCED_INSTANCE_ID, and INVALID_REQUEST for a client id that is too long for an id.
        """
        settings = self.settings
        timeout_ms = request.session_timeout_ms
        if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        group = self.groups.get(request.group_id)
        new_id = ""
        if not request.member_id:
            new_id = f"{request.group_instance_id or client.client_id}-{self._new_id()}"
            if len(new_id.encode()) > MAX_ID_BYTES:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
        attempt = JoinAttempt(request, client, new_id, waiter)
        turn = self._turn(now_ms)
        if group is None:
            group = self._join_first(attempt, turn)
        else:
            join(group, attempt, turn)
        self._reschedule(group)
        return turn.effects

    def _join_first(self, attempt: JoinAttempt, turn: Turn) -> ClassicGroup:
        """Make a group for its first member; its record is written even if nobody comes after."""
        group_id = attempt.request.group_id
        if attempt.request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        group = ClassicGroup(group_id, turn.now_ms)
        turn.effects.records.append(group_metadata(group_id, group.state_record()))
        join(group, attempt, turn)
        self.groups[group_id] = group
        turn.effects.undo.append(lambda _: self._forget(group))
        return group

    def _forget(self, group: ClassicGroup) -> None:
        self.groups.pop(group.group_id, None)

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> Effects:
        """A member asks for its assignment; answered when the leader has brought it.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
        """
        group = self._group(request.group_id)
        member = protocol.validate_member(group, request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type not in (None, group.protocol_type) or (
            request.protocol_name is not None
            and group.protocol is not None
            and request.protocol_name != group.protocol
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        turn = self._turn(now_ms)
        assignments = {a.member_id: a.assignment for a in request.assignments}
        protocol.sync(group, member, assignments, waiter, turn)
        self._reschedule(group)
        return turn.effects

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> None:
        """A member is alive; KafkaError tells it what else is going on.

        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
        """
        group = self._group(request.group_id)
        member = protocol.validate_member(group, request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        protocol.renew_session(member, now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(
        self, group_id: str, leaving: list[MemberIdentity], waiter: Waiter, now_ms: int
    ) -> Effects:
        """Members leave together; each has an answer of its own in a LeaveGroupResponse."""
        group = self.groups.get(group_id)
        turn = self._turn(now_ms)
        answers, gone = [], []
        for identity in leaving:
            answer = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            answers.append(answer)
            try:
                if group is None:
                    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
                gone.append(_let_go(group, identity, turn))
            except KafkaError as error:
                answer.error_code = error.code
        if group is not None and gone:
            protocol.after_removal(group, f"{', '.join(gone)} left", turn)
            self._reschedule(group)
        turn.effects.reply(waiter, LeaveGroupResponse(members=answers))
        return turn.effects

    def _group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # Offsets

    def check_commit(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> None:
        """Whether somebody may commit offsets; KafkaError says why not.

        GROUP_ID_NOT_FOUND for a generation of a group nobody knows, ILLEGAL_GENERATION,
        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS.
        """
        state = self.state_of(group_id)
        if generation < 0 and state in (None, GroupState.EMPTY):
            return
        if state is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self._group(group_id)
        member = protocol.validate_member(group, member_id, instance_id)
        if generation != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        protocol.renew_session(member, now_ms)

    def offset_record(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, effects: Effects
    ) -> None:
        """Add the record of one offset; KafkaError (OFFSET_METADATA_TOO_LARGE)."""
        if len(value.metadata) > self.settings.offset_metadata_max_bytes:
            raise KafkaError(ErrorCode.OFFSET_METADATA_TOO_LARGE)
        effects.records.append(offset_commit(group_id, topic, partition, value))

    # Groups as a whole

    def state_of(self, group_id: str) -> GroupState | None:
        """A group's state; one that only has offsets is Empty; None for one nobody knows."""
        group = self.groups.get(group_id)
        if group is not None:
            return group.state
        return GroupState.EMPTY if self.offsets.has(group_id) else None

    def group_ids(self) -> list[str]:
        """Every group, those that only have offsets included."""
        return list(dict.fromkeys([*self.groups, *sorted(self.offsets.group_ids())]))

    def delete(self, group_id: str) -> Effects:
        """Delete an empty group and its offsets.

        Raises KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        state = self.state_of(group_id)
        if state is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        effects = Effects(is_atomic=False)
        for topic, partition in sorted(self.offsets.partitions_of(group_id)):
            effects.records.append(offset_commit(group_id, topic, partition, None))
        effects.records.append(group_metadata(group_id, None))
        return effects

    def forget_topics(self, is_gone: Callable[[str], bool]) -> Effects:
        """Drop the offsets of topics that are deleted."""
        effects = Effects(is_atomic=False)
        for group_id in sorted(self.offsets.group_ids()):
            for topic, partition in sorted(self.offsets.partitions_of(group_id)):
                if is_gone(topic):
                    effects.records.append(offset_commit(group_id, topic, partition, None))
        return effects

    def expire_offsets(self, now_ms: int) -> Effects:
        """Drop what is past ``offsets.retention.minutes``, and empty groups without any left."""
        effects = Effects(is_atomic=False)
        for group_id in self.group_ids():
            group = self.groups.get(group_id)
            kept = set() if group is None else kept_topics(group)
            expired = [] if kept is None else self._expired(group_id, kept, now_ms)
            for topic, partition in expired:
                effects.records.append(offset_commit(group_id, topic, partition, None))
            if (
                group is not None
                and group.state is GroupState.EMPTY
                and not group.pending_joins
                and len(self.offsets.partitions_of(group_id)) == len(expired)
            ):
                effects.records.append(group_metadata(group_id, None))
        return effects

    def _expired(self, group_id: str, kept: set[str], now_ms: int) -> list[tuple[str, int]]:
        group = self.groups.get(group_id)
        retention_ms = self.settings.offsets_retention_ms
        return [
            (topic, partition)
            for topic, partition, committed in self.offsets.of(group_id).items()
            if topic not in kept
            and has_expired(group, committed, retention_ms, now_ms)
            and not self.offsets.is_pending(group_id, topic, partition)
        ]

    # Time and records

    def next_deadline_ms(self) -> int | None:
        """When ``tick`` has something to do; None: never as things stand."""
        return self._schedule[0][0] if self._schedule else None

    def tick(self, now_ms: int) -> Effects:
        """Do what is due by now in every group."""
        turn = self._turn(now_ms)
        while self._schedule and self._schedule[0][0] <= now_ms:
            due_ms, group_id = heapq.heappop(self._schedule)
            group = self.groups.get(group_id)
            if group is not None and group.scheduled_ms == due_ms:
                group.scheduled_ms = None
                protocol.expire(group, turn)
                self._reschedule(group)
        return turn.effects

    def undo(self, effects: Effects, now_ms: int) -> Effects:
        """The records of these effects couldn't be written: go back, and tell who is concerned."""
        turn = self._turn(now_ms)
        for take_back in reversed(effects.undo):
            take_back(turn)
        for group in self.groups.values():
            self._reschedule(group)
        return turn.effects

    def replay(self, record: Record, producer_id: int, now_ms: int, *, loading: bool) -> None:
        """Take a record in, of a transaction if ``producer_id`` isn't -1.

        Groups are made from records only while ``loading``: later they live. Records of other
        kinds of groups are passed over. Raises MalformedRequest for a record that is damaged.
        """
        if record.key is None:
            return
        kind = record_type(record.key)
        if kind in (LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE):
            self._replay_offset(record.key, record, producer_id)
        elif kind == GROUP_METADATA_TYPE:
            self._replay_group(record.key, record.value, now_ms, loading)

    def _replay_offset(self, key: bytes, record: Record, producer_id: int) -> None:
        parsed = parse_offset_commit_key(key)
        if record.value is None:
            self.offsets.remove(parsed.group, parsed.topic, parsed.partition)
            return
        value = parse_value(OffsetCommitValue, record.value)
        committed = CommittedOffset.from_record(value, record.offset)
        self.offsets.put(parsed.group, parsed.topic, parsed.partition, committed, producer_id)

    def _replay_group(self, key: bytes, value: bytes | None, now_ms: int, loading: bool) -> None:
        group_id = parse_group_metadata_key(key).group
        if value is None:
            self.groups.pop(group_id, None)
            return
        metadata = parse_value(GroupMetadataValue, value)
        if loading:
            self.groups[group_id] = ClassicGroup.from_record(group_id, metadata, now_ms)
        elif group_id in self.groups:
            self.groups[group_id].take_in(metadata, now_ms)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take in the marker that ends a transaction."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def begin(self, now_ms: int) -> Effects:
        """Everything is loaded: every member has a whole session from now on to be heard.

        Groups that are larger than ``group.max.size`` has become rebalance.
        """
        turn = self._turn(now_ms)
        for group in self.groups.values():
            for member in group.members.values():
                protocol.renew_session(member, now_ms)
            if len(group.members) > self.settings.max_size:
                protocol.prepare_rebalance(group, "the group is larger than group.max.size", turn)
            self._reschedule(group)
        return turn.effects

    def end(self, code: ErrorCode) -> Effects:
        """This coordinator is no more: everybody who waits is told so."""
        effects = Effects()
        for group in self.groups.values():
            for member in group.members.values():
                protocol.fail_join(member, code, effects)
                protocol.fail_sync(member, code, effects)
        self.groups.clear()
        self._schedule.clear()
        return effects

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, self.settings, Effects())

    def _reschedule(self, group: ClassicGroup) -> None:
        """See to it that ``tick`` looks at a group in time; looking too early costs little."""
        due = group.next_deadline_ms()
        if due is not None and (group.scheduled_ms is None or due < group.scheduled_ms):
            group.scheduled_ms = due
            heapq.heappush(self._schedule, (due, group.group_id))


def _let_go(group: ClassicGroup, identity: MemberIdentity, turn: Turn) -> str:
    """Take a member out of its group; a static one may be named by its instance alone.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if group.pending_joins.pop(member_id, None) is not None:
        return member_id
    if instance_id is not None and not member_id:
        member_id = group.static_members.get(instance_id, "")
    member = protocol.validate_member(group, member_id, instance_id)
    protocol.remove_member(group, member, turn)
    return f"{member_id} (reason: {identity.reason or 'not provided'})"
