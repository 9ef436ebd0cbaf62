"""The offsets that a group has committed."""

from typing import NamedTuple

from kwire.coordinator.records import OffsetCommitValue
from kwire.protocol.types import ZERO_UUID

NO_EXPIRY = -1


class CommittedOffset(NamedTuple):
    """The next offset to read, with what the client said of it; times in ms since the epoch."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID

    @classmethod
    def from_record(cls, value: OffsetCommitValue) -> "CommittedOffset":
        """From the value of its record."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )


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
