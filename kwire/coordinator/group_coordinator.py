"""The coordinator of the groups that live in one partition of ``__consumer_offsets``.

Rules:

- ``classic``, ``consumer``, ``share`` and ``streams`` each handle the groups of one kind.
  ``members`` passes requests of the classic protocol to the group's kind. ``committed`` has the
  offsets of all kinds.
  A new kind adds its record types to ``_KINDS_OF_RECORDS`` and itself to ``_kind``.
- ``next_deadline_ms`` says when ``tick`` has something to do.
- Committed offsets and the kept state of groups change by ``replay`` alone, in normal work as at
  loading.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from kwire.coordinator.classic_groups import ClassicGroups
from kwire.coordinator.consumer.classic_members import ClassicMembers
from kwire.coordinator.consumer.coordinator import ConsumerGroups
from kwire.coordinator.consumer.records import CONSUMER_GROUP_TYPES
from kwire.coordinator.coordinator import Coordinator
from kwire.coordinator.effects import Effects
from kwire.coordinator.group import EMPTY_STATE, Group, GroupRegistry, GroupsOfAKind, GroupType
from kwire.coordinator.group_offsets import GroupOffsets
from kwire.coordinator.membership import Membership
from kwire.coordinator.offsets import CommittedOffset, OffsetStore
from kwire.coordinator.rebalance_history import RebalanceHistory
from kwire.coordinator.records import (
    GROUP_METADATA_TYPE,
    LEGACY_OFFSET_COMMIT_TYPE,
    OFFSET_COMMIT_TYPE,
    SHARE_GROUP_TYPES,
    STREAMS_GROUP_TYPES,
    Content,
    OffsetCommitValue,
    WrittenOffset,
    WrittenTarget,
    group_metadata,
    parse_offset_commit_key,
    parse_value,
    record_type,
)
from kwire.coordinator.settings import GroupSettings
from kwire.coordinator.surroundings import Surroundings
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record

if TYPE_CHECKING:
    from kwire.coordinator.share.coordinator import ShareGroups
    from kwire.coordinator.streams.coordinator import StreamsGroups

_KINDS_OF_RECORDS = {
    GROUP_METADATA_TYPE: GroupType.CLASSIC,
    **dict.fromkeys(CONSUMER_GROUP_TYPES, GroupType.CONSUMER),
    **dict.fromkeys(SHARE_GROUP_TYPES, GroupType.SHARE),
    **dict.fromkeys(STREAMS_GROUP_TYPES, GroupType.STREAMS),
}
"""The kind of group to which each type of record belongs, offsets aside."""

EXPIRY_GROUPS = 50
"""How many groups are checked for expired offsets at a time."""


class GroupCoordinator(Coordinator):
    """Groups and their offsets. ``new_id`` gives the random part of a member's id.

    ``surroundings`` is the broker as consumer groups know it; without it they know no topics.
    ``history`` keeps the groups' events; without it the coordinator has its own. ``date_ms`` gives
    the date for records; without it the times of requests count as dates.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        surroundings: Surroundings | None = None,
        history: RebalanceHistory | None = None,
        date_ms: Callable[[], int] | None = None,
    ) -> None:
        self.offsets = OffsetStore()
        self.history = RebalanceHistory() if history is None else history
        self._registry = GroupRegistry(settings, new_id, self.history, date_ms)
        self.classic = ClassicGroups(self._registry)
        self.committed = GroupOffsets(self._registry, self.offsets)
        self._around = surroundings or Surroundings.of_nothing()
        self.consumer = ConsumerGroups(self._registry, self._around)
        self.members = Membership(self._registry, self.classic, ClassicMembers(self.consumer))
        self._kinds: dict[GroupType, GroupsOfAKind] = {
            GroupType.CLASSIC: self.classic,
            GroupType.CONSUMER: self.consumer,
        }

    @cached_property
    def share(self) -> "ShareGroups":
        """The share groups, whose modules a broker without share groups doesn't import."""
        from kwire.coordinator.share.coordinator import ShareGroups

        return ShareGroups(self._registry, self._around, self.offsets.has)

    @cached_property
    def streams(self) -> "StreamsGroups":
        """The streams groups, whose modules a broker without streams groups doesn't import."""
        from kwire.coordinator.streams.coordinator import StreamsGroups

        return StreamsGroups(self._registry, self._around, self.offsets.has)

    @property
    def has_share_groups(self) -> bool:
        """Whether a share group is, or has been, in this coordinator."""
        return "share" in vars(self)

    def _kind(self, kind: GroupType) -> GroupsOfAKind:
        if kind is GroupType.STREAMS:
            return self.streams
        return self.share if kind is GroupType.SHARE else self._kinds[kind]

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that have a record or a member, by id."""
        return self._registry.groups

    # Groups as a whole

    def state_of(self, group_id: str) -> str | None:
        """The state of a group; Empty if it only has offsets; None if the group is unknown."""
        group = self.groups.get(group_id)
        if group is not None:
            return group.state_name
        return EMPTY_STATE if self.offsets.has(group_id) else None

    def group_ids(self) -> list[str]:
        """The ids of all groups, including those that only have offsets."""
        with_offsets_only = [one for one in self.offsets.group_ids() if one not in self.groups]
        return [*self.groups, *with_offsets_only]

    def delete(self, group_id: str, most_offsets: int = sys.maxsize) -> Effects:
        """Delete an empty group and its offsets.

        If it has more than ``most_offsets``, that many are deleted and the group is still there.
        Raises KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        if self.state_of(group_id) is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.groups.get(group_id)
        if group is not None:
            group.check_delete()
        effects = Effects(is_atomic=False)
        if self.committed.tombstones(group_id, most_offsets, effects):
            unknown = [group_metadata(group_id, None)]
            effects.records += unknown if group is None else group.tombstones()
        return effects

    def expire_offsets(self, age_ms: Callable[[int], int]) -> Iterator[Effects]:
        """Delete offsets older than ``offsets.retention.minutes``, and empty groups without any.

        ``age_ms`` gives the time since a date. Each step covers a few groups: the caller carries
        out the effects of a step before the next step.
        """
        group_ids = self.group_ids()
        for first in range(0, len(group_ids), EXPIRY_GROUPS):
            yield self.committed.expire(group_ids[first : first + EXPIRY_GROUPS], age_ms)

    # Time and records

    def next_deadline_ms(self) -> int | None:
        """When ``tick`` has something to do; None: never as things stand."""
        return self._registry.next_deadline_ms()

    def tick(self, now_ms: int) -> Effects:
        """Do the overdue work of one group; its records are one batch, which must have room."""
        group = self._registry.take_due(now_ms)
        return Effects() if group is None else self._expire(group, now_ms)

    def tick_group(self, group_id: str, now_ms: int) -> Effects | None:
        """Do the overdue work of this group; None if there is none."""
        group = self.groups.get(group_id)
        if group is None or group.scheduled_ms is None or group.scheduled_ms > now_ms:
            return None
        group.scheduled_ms = None
        return self._expire(group, now_ms)

    def _expire(self, group: Group, now_ms: int) -> Effects:
        turn = self._registry.turn(now_ms)
        self._kind(group.kind).expire(group, turn)
        self._registry.reschedule(group, now_ms + 1)
        return turn.effects

    def undo(self, effects: Effects, now_ms: int) -> Effects:
        """Take back effects whose records couldn't be written, and answer those that wait."""
        turn = self._registry.turn(now_ms)
        for take_back in reversed(effects.undo):
            take_back(turn)
        for group in self.groups.values():
            self._registry.reschedule(group)
        return turn.effects

    def replay(self, record: Record, producer_id: int, now_ms: int, *, loading: bool) -> None:
        """Apply a record; ``producer_id`` is -1 outside of a transaction.

        Records of kinds of groups that kwire doesn't serve are skipped. Raises MalformedRequest for
        a damaged record.
        """
        if record.key is None:
            return
        record_kind = record_type(record.key)
        if record_kind in (LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE):
            self._replay_offset(record.key, record, producer_id)
            return
        group_kind = _KINDS_OF_RECORDS.get(record_kind)
        if group_kind is not None:
            self._kind(group_kind).replay(record_kind, record, now_ms, loading=loading)

    def take_in(self, content: Content, offset: int, producer_id: int, now_ms: int) -> None:
        """Apply a record that was just written; ``producer_id`` is -1 outside of a transaction.

        This is the fast path of ``replay``, which would parse the same content from the record.
        """
        if isinstance(content, WrittenOffset):
            committed = CommittedOffset.from_record(content.value, offset)
            self.offsets.put(
                content.group, content.topic, content.partition, committed, producer_id
            )
        elif isinstance(content, WrittenTarget):
            self.consumer.take_in(content)
        else:
            self.classic.take_in(content, now_ms)

    def _replay_offset(self, key: bytes, record: Record, producer_id: int) -> None:
        parsed = parse_offset_commit_key(key)
        if record.value is None:
            self.offsets.remove(parsed.group, parsed.topic, parsed.partition)
            return
        value = parse_value(OffsetCommitValue, record.value)
        committed = CommittedOffset.from_record(value, record.offset)
        self.offsets.put(parsed.group, parsed.topic, parsed.partition, committed, producer_id)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the marker that ends a transaction."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def begin(self, now_ms: int) -> Effects:
        """Begin after loading: each member has a whole session to send its first request."""
        turn = self._registry.turn(now_ms)
        for group in list(self.groups.values()):
            self._kind(group.kind).begin(group, turn)
            self._registry.reschedule(group)
        return turn.effects

    def end(self, code: ErrorCode) -> Effects:
        """Answer all members that wait with an error, because this coordinator ends."""
        effects = Effects()
        for group in self.groups.values():
            self._kind(group.kind).end(group, code, effects)
        self._registry.clear()
        return effects
