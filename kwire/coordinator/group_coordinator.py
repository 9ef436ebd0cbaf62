"""The coordinator of the groups that live in one partition of ``__consumer_offsets``.

Rules:

- ``classic`` and ``consumer`` look after the groups of one kind each, ``members`` passes requests
  of the classic protocol to the kind they find, ``committed`` has the offsets of all kinds. A new
  kind adds its record types to ``_KINDS_OF_RECORDS`` and itself to ``__init__``.
- ``next_deadline_ms`` says when ``tick`` has something to do.
- Committed offsets and what groups keep come true by ``replay`` alone, in normal work as when a
  partition is loaded.
"""

import sys
from collections.abc import Callable, Iterator

from kwire.coordinator.classic_groups import ClassicGroups
from kwire.coordinator.consumer.changes import Surroundings
from kwire.coordinator.consumer.classic_members import ClassicMembers
from kwire.coordinator.consumer.coordinator import ConsumerGroups
from kwire.coordinator.consumer.records import CONSUMER_GROUP_TYPES
from kwire.coordinator.effects import Effects
from kwire.coordinator.group import EMPTY_STATE, Group, GroupRegistry, GroupsOfAKind, GroupType
from kwire.coordinator.group_offsets import GroupOffsets
from kwire.coordinator.history import Histories
from kwire.coordinator.membership import Membership
from kwire.coordinator.offsets import CommittedOffset, OffsetStore
from kwire.coordinator.records import (
    GROUP_METADATA_TYPE,
    LEGACY_OFFSET_COMMIT_TYPE,
    OFFSET_COMMIT_TYPE,
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
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record

_KINDS_OF_RECORDS = {
    GROUP_METADATA_TYPE: GroupType.CLASSIC,
    **dict.fromkeys(CONSUMER_GROUP_TYPES, GroupType.CONSUMER),
}
"""Which kind of group a type of record belongs to, offsets aside."""

EXPIRY_GROUPS = 50
"""How many groups are looked through for old offsets at a time."""


class GroupCoordinator:
    """Groups and their offsets. ``new_id`` gives the random part of a member's id.

    ``surroundings`` is what consumer groups know of the broker; nothing at all if it isn't given.
    ``histories`` keep what happens to groups, of its own if they aren't given. ``date_ms`` gives
    the date, for records; without it the times that are given with requests count as dates.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        surroundings: Surroundings | None = None,
        histories: Histories | None = None,
        date_ms: Callable[[], int] | None = None,
    ) -> None:
        self.offsets = OffsetStore()
        self.histories = Histories() if histories is None else histories
        self._registry = GroupRegistry(settings, new_id, self.histories, date_ms)
        self.classic = ClassicGroups(self._registry)
        self.committed = GroupOffsets(self._registry, self.offsets)
        self.consumer = ConsumerGroups(self._registry, surroundings or Surroundings.of_nothing())
        self.members = Membership(self._registry, self.classic, ClassicMembers(self.consumer))
        self._kinds: dict[GroupType, GroupsOfAKind] = {
            GroupType.CLASSIC: self.classic,
            GroupType.CONSUMER: self.consumer,
        }

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that have a record or a member, by id."""
        return self._registry.groups

    # Groups as a whole

    def state_of(self, group_id: str) -> str | None:
        """The state of a group; one that only has offsets is Empty; None for one nobody knows."""
        group = self.groups.get(group_id)
        if group is not None:
            return group.state_name
        return EMPTY_STATE if self.offsets.has(group_id) else None

    def group_ids(self) -> list[str]:
        """Every group, those that only have offsets included."""
        with_offsets_only = [one for one in self.offsets.group_ids() if one not in self.groups]
        return [*self.groups, *with_offsets_only]

    def delete(self, group_id: str, most_offsets: int = sys.maxsize) -> Effects:
        """Delete an empty group and its offsets.

        Where it has more than ``most_offsets``, that many are deleted and the group is still there.
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
        """Drop what is past ``offsets.retention.minutes``, and empty groups without any left.

        ``age_ms`` says how long ago a date was. A few groups at a time: the effects of each step
        are to be carried out before the next.
        """
        group_ids = self.group_ids()
        for first in range(0, len(group_ids), EXPIRY_GROUPS):
            yield self.committed.expire(group_ids[first : first + EXPIRY_GROUPS], age_ms)

    # Time and records

    def next_deadline_ms(self) -> int | None:
        """When ``tick`` has something to do; None: never as things stand."""
        return self._registry.next_deadline_ms()

    def tick(self, now_ms: int) -> Effects:
        """Do what is due by now in one group: its records are one batch, which has to have room."""
        group = self._registry.take_due(now_ms)
        return Effects() if group is None else self._expire(group, now_ms)

    def tick_group(self, group_id: str, now_ms: int) -> Effects | None:
        """Do what is due by now in this group; None where nothing is."""
        group = self.groups.get(group_id)
        if group is None or group.scheduled_ms is None or group.scheduled_ms > now_ms:
            return None
        group.scheduled_ms = None
        return self._expire(group, now_ms)

    def _expire(self, group: Group, now_ms: int) -> Effects:
        turn = self._registry.turn(now_ms)
        self._kinds[group.kind].expire(group, turn)
        self._registry.reschedule(group)
        return turn.effects

    def undo(self, effects: Effects, now_ms: int) -> Effects:
        """The records of these effects couldn't be written: go back, and tell who is concerned."""
        turn = self._registry.turn(now_ms)
        for take_back in reversed(effects.undo):
            take_back(turn)
        for group in self.groups.values():
            self._registry.reschedule(group)
        return turn.effects

    def replay(self, record: Record, producer_id: int, now_ms: int, *, loading: bool) -> None:
        """Take a record in, of a transaction if ``producer_id`` isn't -1.

        Records of kinds of groups that aren't served are passed over. Raises MalformedRequest for
        a record that is damaged.
        """
        if record.key is None:
            return
        record_kind = record_type(record.key)
        if record_kind in (LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE):
            self._replay_offset(record.key, record, producer_id)
            return
        group_kind = _KINDS_OF_RECORDS.get(record_kind)
        if group_kind is not None:
            self._kinds[group_kind].replay(record_kind, record, now_ms, loading=loading)

    def take_in(self, content: Content, offset: int, producer_id: int, now_ms: int) -> None:
        """Take in what was just written at an offset, in a transaction if ``producer_id`` isn't -1.

        The fast path of ``replay``, which would read the same from the record.
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
        """Take in the marker that ends a transaction."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def begin(self, now_ms: int) -> Effects:
        """Everything is loaded: every member has a whole session from now on to be heard."""
        turn = self._registry.turn(now_ms)
        for group in list(self.groups.values()):
            self._kinds[group.kind].begin(group, turn)
            self._registry.reschedule(group)
        return turn.effects

    def end(self, code: ErrorCode) -> Effects:
        """This coordinator is no more: everybody who waits is told so."""
        effects = Effects()
        for group in self.groups.values():
            self._kinds[group.kind].end(group, code, effects)
        self._registry.clear()
        return effects
