"""Operations on the offsets of groups of every kind: commit, fetch, delete, and expiry.

Rules:

- The group decides whether a client may commit or fetch. Offsets change by ``replay`` alone.
- If there is no group, every client without a generation may commit: a simple consumer, or a tool.
- An offset that an open transaction may change doesn't expire, nor does its group.

Source: OffsetMetadataManager of Kafka; KIP-211, KIP-447, KIP-496.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from kwire.coordinator.effects import Effects
from kwire.coordinator.expiry import has_expired
from kwire.coordinator.group import Committer, Group, GroupRegistry
from kwire.coordinator.offsets import OffsetStore
from kwire.coordinator.records import OffsetCommitValue, offset_commit
from kwire.errors import ErrorCode, KafkaError

GROUPS_PER_STEP = 25
"""How many groups are checked at a time."""

GROUP_ID_NOT_FOUND_SINCE = {False: 9, True: 6}
"""The first version with this error, of OffsetCommit and of the TxnOffsetCommit of transactions."""


class GroupOffsets:
    """The offsets of the groups of a coordinator."""

    def __init__(self, registry: GroupRegistry, store: OffsetStore) -> None:
        self._registry = registry
        self._store = store

    def check_commit(self, group_id: str, committer: Committer, now_ms: int) -> None:
        """Raise KafkaError unless a client may commit offsets.

        GROUP_ID_NOT_FOUND for a generation of an unknown group (ILLEGAL_GENERATION if the API's
        version doesn't have that error), and the errors of the group's ``check_commit``.
        """
        group = self._registry.groups.get(group_id)
        if group is not None:
            group.check_commit(committer, now_ms)
        elif committer.generation >= 0:
            if self._store.has(group_id):
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            is_old = committer.api_version < GROUP_ID_NOT_FOUND_SINCE[committer.is_transactional]
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION if is_old else ErrorCode.GROUP_ID_NOT_FOUND
            )
        elif not self._store.has(group_id):
            self._registry.check_room(len(self._store))

    def check_commit_of(
        self, group_id: str, committer: Committer, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """Raise the group's KafkaError if a client may not commit this partition."""
        group = self._registry.groups.get(group_id)
        if group is not None:
            group.check_commit_of(committer, topic, topic_id, partition)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Raise the KafkaError of the group's ``check_fetch`` unless a client may fetch offsets."""
        group = self._registry.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)

    def add_record(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, effects: Effects
    ) -> None:
        """Add the record of one offset; KafkaError (OFFSET_METADATA_TOO_LARGE)."""
        if len(value.metadata) > self._registry.settings.offset_metadata_max_bytes:
            raise KafkaError(ErrorCode.OFFSET_METADATA_TOO_LARGE)
        effects.records.append(offset_commit(group_id, topic, partition, value))

    def delete(
        self, group_id: str, wanted: Sequence[tuple[str, int]]
    ) -> tuple[Effects, AbstractSet[str]]:
        """Delete offsets (topic, partition), except of topics that members read: return those.

        Raises KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        topics = {topic for topic, _ in wanted}
        group = self._registry.groups.get(group_id)
        read: AbstractSet[str] = frozenset()
        if group is not None:
            group.check_offset_delete()
            known = group.subscribed_topics()
            read = topics if known is None else topics & known
        elif not self._store.has(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        effects = Effects(is_atomic=False)
        for topic, partition in dict.fromkeys(wanted):
            if topic not in read and self._store.holds(group_id, topic, partition):
                effects.records.append(offset_commit(group_id, topic, partition, None))
        return effects, read

    def tombstones(self, group_id: str, most: int, effects: Effects) -> bool:
        """Add tombstones for a group's offsets; return whether these are all of its offsets."""
        held = list(
            islice(self._store.iter_partitions(group_id), most + 1 if most < sys.maxsize else None)
        )
        for topic, partition in sorted(set(held[:most])):
            effects.records.append(offset_commit(group_id, topic, partition, None))
        return len(held) <= most

    def forget_topics(self, is_gone: Callable[[str], bool]) -> Iterator[Effects]:
        """Delete the offsets of deleted topics.

        Each step covers a few groups: the caller carries out its effects before the next step.
        """
        effects = Effects(is_atomic=False)
        for count, group_id in enumerate(self._store.group_ids(), 1):
            gone = {topic for topic in self._store.topics_of(group_id) if is_gone(topic)}
            if gone:
                effects.records += [
                    offset_commit(group_id, topic, partition, None)
                    for topic, partition in sorted(self._store.partitions_of(group_id))
                    if topic in gone
                ]
            if count % GROUPS_PER_STEP == 0 or effects.records:
                yield effects
                effects = Effects(is_atomic=False)

    def expire(self, group_ids: Sequence[str], age_ms: Callable[[int], int]) -> Effects:
        """Delete offsets older than ``offsets.retention.minutes``, and empty groups without any."""
        effects = Effects(is_atomic=False)
        for group_id in group_ids:
            group = self._registry.groups.get(group_id)
            expired = self._expired(group_id, group, age_ms)
            for topic, partition in expired:
                effects.records.append(offset_commit(group_id, topic, partition, None))
            if (
                group is not None
                and group.may_expire
                and len(self._store.partitions_of(group_id)) == len(expired)
            ):
                effects.records += group.tombstones()
        return effects

    def _expired(
        self, group_id: str, group: Group | None, age_ms: Callable[[int], int]
    ) -> list[tuple[str, int]]:
        read = set() if group is None else group.subscribed_topics()
        if read is None:
            return []
        retention_ms = self._registry.settings.offsets_retention_ms
        return [
            (topic, partition)
            for topic, partition, committed in self._store.of(group_id).items()
            if topic not in read
            and has_expired(group, committed, retention_ms, age_ms)
            and not self._store.is_pending(group_id, topic, partition)
        ]
