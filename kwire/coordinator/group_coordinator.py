"""The coordinator of the groups that live in one partition of ``__consumer_offsets``.

Rules:

- Every operation takes a request and ``now_ms`` and leaves what it leads to in ``Effects``; a
  KafkaError is the answer to the one who asked.
- Committed offsets change by ``replay`` alone, in normal work as when a partition is loaded.
- ``next_deadline_ms`` says when ``tick`` has something to do.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

from kwire.coordinator import classic_protocol as protocol
from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.effects import Effects, Waiter
from kwire.coordinator.joining import Client, JoinAttempt, join
from kwire.coordinator.offsets import CommittedOffset, GroupOffsets
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
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.leave_group import MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest


class GroupSettings(NamedTuple):
    """The broker's settings that the coordinator goes by; times in ms."""

    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = (1 << 31) - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 604_800_000


class GroupCoordinator:
    """Groups and their offsets. ``new_id`` gives the random part of a member's id."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets: dict[str, GroupOffsets] = {}
        self._new_id = new_id
        self._schedule: list[tuple[int, str]] = []

    # The classic protocol

    def join(
        self, request: JoinGroupRequest, client: Client, waiter: Waiter, now_ms: int
    ) -> Effects:
        """A member joins; it is answered when the rebalance is complete, or at once.

        Raises KafkaError: INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, GROUP_MAX_SIZE_REACHED,
        INCONSISTENT_GROUP_PROTOCOL, FENCED_INSTANCE_ID, and MemberIdRequired.
        """
        settings = self.settings
        timeout_ms = request.session_timeout_ms
        if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            group = ClassicGroup(request.group_id, now_ms)
        new_id = f"{request.group_instance_id or client.client_id}-{self._new_id()}"
        attempt = JoinAttempt(
            request, client, new_id, waiter, settings.initial_rebalance_delay_ms, now_ms
        )
        effects = Effects()
        try:
            join(group, attempt, settings.max_size, effects)
        finally:
            if group.members or group.pending_joins:
                self.groups[request.group_id] = group
            self._reschedule(group)
        return effects

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> Effects:
        """A member asks for its assignment; answered when the leader has brought it."""
        group = self._group(request.group_id)
        member = protocol.validate_member(group, request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        wrong_type = request.protocol_type not in (None, group.protocol_type)
        if wrong_type or request.protocol_name not in (None, group.protocol):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        effects = Effects()
        assignments = {a.member_id: a.assignment for a in request.assignments}
        protocol.sync(group, member, assignments, waiter, now_ms, effects)
        self._reschedule(group)
        return effects

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> None:
        """A member is alive; KafkaError tells it what else is going on."""
        group = self._group(request.group_id)
        member = protocol.validate_member(group, request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        protocol.renew_session(member, now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, group_id: str, leaving: MemberIdentity, now_ms: int) -> Effects:
        """One member leaves; a static one may be named by its instance alone."""
        group = self._group(group_id)
        effects = Effects()
        member_id = leaving.member_id
        instance_id = leaving.group_instance_id
        if instance_id is not None and not member_id:
            member_id = group.static_members.get(instance_id, "")
        if member_id in group.pending_joins:
            del group.pending_joins[member_id]
            protocol.maybe_complete_join(group, now_ms, effects)
        else:
            member = protocol.validate_member(group, member_id, instance_id)
            delay_ms = self.settings.initial_rebalance_delay_ms
            protocol.remove_member(group, member, delay_ms, now_ms, effects)
        self._reschedule(group)
        return effects

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

        ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS.
        """
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            return
        if generation < 0 and not member_id and group.state is GroupState.EMPTY:
            return
        member = protocol.validate_member(group, member_id, instance_id)
        if generation != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        protocol.renew_session(member, now_ms)

    def offset_record(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, effects: Effects
    ) -> None:
        """Add the record of one offset; KafkaError (OFFSET_METADATA_TOO_LARGE)."""
        if len(value.metadata.encode()) > self.settings.offset_metadata_max_bytes:
            raise KafkaError(ErrorCode.OFFSET_METADATA_TOO_LARGE)
        effects.records.append(offset_commit(group_id, topic, partition, value))

    def committed(self, group_id: str) -> GroupOffsets:
        """A group's offsets; empty for a group nobody knows."""
        return self.offsets.get(group_id, GroupOffsets())

    # Groups as a whole

    def state_of(self, group_id: str) -> GroupState | None:
        """A group's state; one that only has offsets is Empty; None for one nobody knows."""
        group = self.groups.get(group_id)
        if group is not None:
            return group.state
        return GroupState.EMPTY if group_id in self.offsets else None

    def group_ids(self) -> list[str]:
        """Every group, those that only have offsets included."""
        return list(self.groups | self.offsets)

    def delete(self, group_id: str) -> Effects:
        """Delete an empty group and its offsets.

        Raises KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        state = self.state_of(group_id)
        if state is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        effects = Effects()
        for topic, partition, _ in self.committed(group_id).items():
            effects.records.append(offset_commit(group_id, topic, partition, None))
        effects.records.append(group_metadata(group_id, None))
        return effects

    def forget_topics(self, is_gone: Callable[[str], bool]) -> Effects:
        """Drop the offsets of topics that are deleted."""
        effects = Effects()
        for group_id, offsets in self.offsets.items():
            for topic, partition, _ in offsets.items():
                if is_gone(topic):
                    effects.records.append(offset_commit(group_id, topic, partition, None))
        return effects

    def expire_offsets(self, now_ms: int) -> Effects:
        """Drop what is past ``offsets.retention.minutes`` (KIP-211), and groups without any left.

        The time counts from when the group became empty, or, for clients that only commit, from
        the commit.
        """
        effects = Effects()
        for group_id in self.group_ids():
            group = self.groups.get(group_id)
            if group is not None and group.state is not GroupState.EMPTY:
                continue
            since_ms = group.state_since_ms if group is not None and group.protocol_type else 0
            kept = 0
            for topic, partition, committed in self.committed(group_id).items():
                last_ms = max(since_ms, committed.commit_timestamp_ms)
                if now_ms - last_ms >= self.settings.offsets_retention_ms:
                    effects.records.append(offset_commit(group_id, topic, partition, None))
                else:
                    kept += 1
            if group is not None and not kept and not group.pending_joins:
                effects.records.append(group_metadata(group_id, None))
        return effects

    # Time, records

    def next_deadline_ms(self) -> int | None:
        """When ``tick`` has something to do; None: never as things stand."""
        return self._schedule[0][0] if self._schedule else None

    def tick(self, now_ms: int) -> Effects:
        """Do what is due by now in every group."""
        effects = Effects()
        while self._schedule and self._schedule[0][0] <= now_ms:
            _, group_id = heapq.heappop(self._schedule)
            group = self.groups.get(group_id)
            if group is None:
                continue
            group.scheduled_ms = None
            due = group.next_deadline_ms()
            if due is not None and due <= now_ms:
                delay_ms = self.settings.initial_rebalance_delay_ms
                protocol.expire(group, delay_ms, now_ms, effects)
            self._reschedule(group)
        return effects

    def _reschedule(self, group: ClassicGroup) -> None:
        """See to it that ``tick`` looks at a group in time; looking too early costs little."""
        due = group.next_deadline_ms()
        if due is not None and (group.scheduled_ms is None or due < group.scheduled_ms):
            group.scheduled_ms = due
            heapq.heappush(self._schedule, (due, group.group_id))

    def replay(self, key: bytes, value: bytes | None, now_ms: int, *, loading: bool) -> None:
        """Take a record in. Groups are made from records only while ``loading``: later they live.

        Raises MalformedRequest for a record that is damaged.
        """
        kind = record_type(key)
        if kind in (LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE):
            self._replay_offset(key, value)
        elif kind == GROUP_METADATA_TYPE:
            group_id = parse_group_metadata_key(key).group
            if value is None:
                self.groups.pop(group_id, None)
            elif loading:
                metadata = parse_value(GroupMetadataValue, value)
                group = ClassicGroup.from_record(group_id, metadata, now_ms)
                self.groups[group_id] = group
                self._reschedule(group)

    def _replay_offset(self, key: bytes, value: bytes | None) -> None:
        parsed = parse_offset_commit_key(key)
        if value is not None:
            committed = CommittedOffset.from_record(parse_value(OffsetCommitValue, value))
            offsets = self.offsets.setdefault(parsed.group, GroupOffsets())
            offsets.put(parsed.topic, parsed.partition, committed)
        elif parsed.group in self.offsets:
            self.offsets[parsed.group].remove(parsed.topic, parsed.partition)
            if not self.offsets[parsed.group]:
                del self.offsets[parsed.group]
