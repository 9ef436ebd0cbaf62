"""The offsets that groups have committed, and those that open transactions will commit.

Rules:

- Everything here changes by replaying records, in the order of the log.
- An offset of a transaction is pending until the transaction's marker: a commit makes it hold
  unless a younger record of the same partition did so meanwhile, an abort forgets it (KIP-447).

Source: OffsetMetadataManager of Kafka.
"""

from typing import NamedTuple

from kwire.coordinator.records import OffsetCommitValue
from kwire.protocol.types import ZERO_UUID

NO_EXPIRY = -1
NO_PRODUCER_ID = -1


class CommittedOffset(NamedTuple):
    """The next offset to read, with what the client said of it; times in ms since the epoch.

    ``record_offset`` is where it is kept in the coordinator's own partition.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID
    record_offset: int = -1

    @classmethod
    def from_record(cls, value: OffsetCommitValue, record_offset: int) -> "CommittedOffset":
        """From the value of its record."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

    def belongs_to(self, topic_id: bytes) -> bool:
        """Whether it was committed for this topic, not for an older one of the same name."""
        return ZERO_UUID in (topic_id, self.topic_id) or topic_id == self.topic_id


class GroupOffsets:
    """One group's offsets by topic and partition."""

    __slots__ = ("topics",)

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, CommittedOffset]] = {}

    def put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Note an offset."""
        self.topics.setdefault(topic, {})[partition] = committed

    def remove(self, topic: str, partition: int) -> None:
        """Forget an offset, if there is one."""
        partitions = self.topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            self.topics.pop(topic, None)

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """The offset committed for a partition."""
        return self.topics.get(topic, {}).get(partition)

    def items(self) -> list[tuple[str, int, CommittedOffset]]:
        """Every offset: topic, partition, what is committed."""
        return [
            (topic, partition, committed)
            for topic, partitions in self.topics.items()
            for partition, committed in partitions.items()
        ]

    def __bool__(self) -> bool:
        return bool(self.topics)


class OffsetStore:
    """The offsets of every group of a coordinator."""

    __slots__ = ("_groups", "_pending")

    def __init__(self) -> None:
        self._groups: dict[str, GroupOffsets] = {}
        self._pending: dict[int, dict[str, GroupOffsets]] = {}

    def group_ids(self) -> set[str]:
        """Every group that has an offset, pending ones included."""
        return set(self._groups).union(*self._pending.values())

    def of(self, group_id: str) -> GroupOffsets:
        """A group's committed offsets; empty for a group nobody knows."""
        return self._groups.get(group_id) or GroupOffsets()

    def has(self, group_id: str) -> bool:
        """Whether a group has an offset, committed or pending."""
        return group_id in self._groups or any(
            group_id in groups for groups in self._pending.values()
        )

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change the offset of a partition."""
        return any(
            group_id in groups and groups[group_id].get(topic, partition) is not None
            for groups in self._pending.values()
        )

    def partitions_of(self, group_id: str) -> set[tuple[str, int]]:
        """Every partition for which a group has an offset, committed or pending."""
        held = [self.of(group_id)]
        held += [groups[group_id] for groups in self._pending.values() if group_id in groups]
        return {(topic, partition) for offsets in held for topic, partition, _ in offsets.items()}

    def put(
        self, group_id: str, topic: str, partition: int, offset: CommittedOffset, producer_id: int
    ) -> None:
        """Replay an offset; a pending one if a transaction's producer committed it."""
        if producer_id == NO_PRODUCER_ID:
            groups = self._groups
        else:
            groups = self._pending.setdefault(producer_id, {})
        groups.setdefault(group_id, GroupOffsets()).put(topic, partition, offset)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Replay a tombstone: forget an offset, committed and pending."""
        for groups in (self._groups, *self._pending.values()):
            if group_id in groups:
                groups[group_id].remove(topic, partition)
                if not groups[group_id]:
                    del groups[group_id]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Replay a transaction's marker."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            for topic, partition, offset in offsets.items() if committed else ():
                known = self.of(group_id).get(topic, partition)
                if known is None or known.record_offset < offset.record_offset:
                    self.put(group_id, topic, partition, offset, NO_PRODUCER_ID)
