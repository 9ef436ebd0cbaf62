"""The offsets that groups have committed, and the pending offsets of open transactions.

Rules:

- All state here changes by replaying records, in the order of the log.
- An offset of a transaction is pending until the transaction's marker. A commit puts it in force,
  unless a newer record of the same partition is already in force. An abort drops it (KIP-447).

Source: OffsetMetadataManager of Kafka.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kwire.coordinator.records import OffsetCommitValue
from kwire.protocol.types import ZERO_UUID

NO_EXPIRY = -1
NO_PRODUCER_ID = -1


class CommittedOffset(NamedTuple):
    """The next offset to read, with the client's metadata; times in ms since the epoch.

    ``record_offset`` is the offset of its record in the coordinator's own partition.
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
        """Whether it was committed for this topic, and not for an older topic of the same name."""
        return ZERO_UUID in (topic_id, self.topic_id) or topic_id == self.topic_id


class GroupOffsets:
    """One group's offsets by topic and partition."""

    __slots__ = ("topics",)

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, CommittedOffset]] = {}

    def put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Set the offset of a partition."""
        partitions = self.topics.get(topic)
        if partitions is None:
            self.topics[topic] = partitions = {}
        partitions[partition] = committed

    def remove(self, topic: str, partition: int) -> None:
        """Remove the offset of a partition, if it has one."""
        partitions = self.topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            self.topics.pop(topic, None)

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """The offset committed for a partition."""
        return self.topics.get(topic, {}).get(partition)

    def items(self) -> list[tuple[str, int, CommittedOffset]]:
        """Every offset: topic, partition, and the committed offset."""
        return [
            (topic, partition, committed)
            for topic, partitions in self.topics.items()
            for partition, committed in partitions.items()
        ]

    def __bool__(self) -> bool:
        return bool(self.topics)


class OffsetStore:
    """The offsets of every group of a coordinator.

    ``_pending`` holds the offsets of open transactions by producer id; ``_open`` holds the producer
    ids with pending offsets by group.
    """

    __slots__ = ("_groups", "_open", "_pending")

    def __init__(self) -> None:
        self._groups: dict[str, GroupOffsets] = {}
        self._pending: dict[int, dict[str, GroupOffsets]] = {}
        self._open: dict[str, set[int]] = {}

    def group_ids(self) -> list[str]:
        """Every group that has an offset, or an open transaction that commits one."""
        return [*self._groups, *(one for one in self._open if one not in self._groups)]

    def __len__(self) -> int:
        """How many groups have a committed offset."""
        return len(self._groups)

    def of(self, group_id: str) -> GroupOffsets:
        """A group's committed offsets; empty for an unknown group."""
        return self._groups.get(group_id) or GroupOffsets()

    def has(self, group_id: str) -> bool:
        """Whether a group has an offset, or an open transaction that commits one."""
        return group_id in self._groups or group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change the offset of a partition."""
        return any(
            offsets.get(topic, partition) is not None for offsets in self._pending_of(group_id)
        )

    def _pending_of(self, group_id: str) -> list[GroupOffsets]:
        """The offsets of a group in each open transaction."""
        return [self._pending[producer][group_id] for producer in self._open.get(group_id, ())]

    def holds(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a group has an offset of a partition, committed or pending."""
        return self.of(group_id).get(topic, partition) is not None or self.is_pending(
            group_id, topic, partition
        )

    def iter_partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Every partition for which a group has an offset; one may be given several times."""
        for offsets in (self.of(group_id), *self._pending_of(group_id)):
            for topic, partitions in offsets.topics.items():
                for partition in partitions:
                    yield topic, partition

    def partitions_of(self, group_id: str) -> set[tuple[str, int]]:
        """Every partition for which a group has an offset, committed or pending."""
        held = [self.of(group_id), *self._pending_of(group_id)]
        return {(topic, partition) for offsets in held for topic, partition, _ in offsets.items()}

    def topics_of(self, group_id: str) -> set[str]:
        """Every topic for which a group has an offset, committed or pending."""
        held = [self.of(group_id), *self._pending_of(group_id)]
        return {topic for offsets in held for topic in offsets.topics}

    def put(
        self, group_id: str, topic: str, partition: int, offset: CommittedOffset, producer_id: int
    ) -> None:
        """Replay an offset; a pending one if a transaction's producer committed it."""
        groups = self._groups
        if producer_id != NO_PRODUCER_ID:
            groups = self._pending.setdefault(producer_id, {})
            self._open.setdefault(group_id, set()).add(producer_id)
        if group_id not in groups:
            groups[group_id] = GroupOffsets()
        groups[group_id].put(topic, partition, offset)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Replay a tombstone: remove an offset, committed and pending."""
        committed = self._groups.get(group_id)
        if committed is not None:
            committed.remove(topic, partition)
            if not committed:
                del self._groups[group_id]
        for producer_id in list(self._open.get(group_id, ())):
            offsets = self._pending[producer_id][group_id]
            offsets.remove(topic, partition)
            if not offsets:
                del self._pending[producer_id][group_id]
                self._close(group_id, producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Replay a transaction's marker."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            self._close(group_id, producer_id)
            for topic, partition, offset in offsets.items() if committed else ():
                known = self.of(group_id).get(topic, partition)
                if known is None or known.record_offset < offset.record_offset:
                    self.put(group_id, topic, partition, offset, NO_PRODUCER_ID)

    def _close(self, group_id: str, producer_id: int) -> None:
        """Note that a transaction has no more pending offsets of a group."""
        producers = self._open[group_id]
        assert producer_id in producers, (group_id, producer_id)  # as ``put`` has noted
        producers.discard(producer_id)
        if not producers:
            del self._open[group_id]
