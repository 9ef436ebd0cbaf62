"""What clients ask of the offsets of groups of every kind: commit, fetch, delete; and their expiry.

Rules:

- Whether somebody may commit or fetch is for the group to say; offsets come true by ``replay``.
- Without a group anybody may commit who claims no generation: a simple consumer, or a tool.
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
"""How many groups are looked through at a time."""

GROUP_ID_NOT_FOUND_SINCE = 9
"""The first version of OffsetCommit that has this error."""


class GroupOffsets:
    """The offsets of the groups of a coordinator."""

    def __init__(self, registry: GroupRegistry, store: OffsetStore) -> None:
        self._registry = registry
        self._store = store

    def check_commit(self, group_id: str, committer: Committer, now_ms: int) -> None:
        """Whether somebody may commit offsets; KafkaError says why not.

        GROUP_ID_NOT_FOUND for a generation of a group nobody knows (ILLEGAL_GENERATION where the
        API or its version doesn't have that), and what ``check_commit`` of the group raises.
        """
        group = self._registry.groups.get(group_id)
        if group is not None:
            group.check_commit(committer, now_ms)
        elif committer.generation >= 0:
            if self._store.has(group_id):
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            is_old = committer.api_version < GROUP_ID_NOT_FOUND_SINCE
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION
                if committer.is_transactional or is_old
                else ErrorCode.GROUP_ID_NOT_FOUND
            )
        elif not self._store.has(group_id):
            self._registry.check_room(len(self._store))

    def check_commit_of(
        self, group_id: str, committer: Committer, topic_id: bytes, partition: int
    ) -> None:
        """Whether somebody who may commit may commit this partition; KafkaError as of the group."""
        group = self._registry.groups.get(group_id)
        if group is not None:
            group.check_commit_of(committer, topic_id, partition)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Whether somebody may fetch offsets; KafkaError as ``check_fetch`` of the group."""
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
        """Forget offsets (topic, partition), but for topics that are read: those are returned.

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
        """Add the records that forget a group's offsets; whether these are all of them."""
        held = list(
            islice(self._store.iter_partitions(group_id), most + 1 if most < sys.maxsize else None)
        )
        for topic, partition in sorted(set(held[:most])):
            effects.records.append(offset_commit(group_id, topic, partition, None))
        return len(held) <= most

    def forget_topics(self, is_gone: Callable[[str], bool]) -> Iterator[Effects]:
        """Drop the offsets of topics that are deleted.

        Few groups at a time: the effects of each step are to be carried out before the next.
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
        """Drop what is past ``offsets.retention.minutes``, and empty groups without any left."""
        effects = Effects(is_atomic=False)
        for group_id in group_ids:
            group = self._registry.groups.get(group_id)
            expired = self._expired(group_id, group, age_ms)
            for topic, partition in expired:
                effects.records.append(offset_commit(group_id, topic, partition, None))
            if (
                group is not None
                and group.is_idle
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
