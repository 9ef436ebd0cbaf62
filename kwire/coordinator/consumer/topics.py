"""The cluster's topics as consumer groups see them, and a hash that shows their changes.

Rules:

- A group's epoch is bumped if the hash of its subscribed topics changes. A topic that doesn't exist
  takes part: its creation changes the hash.
- The hash is no secret, and no other broker compares it: Kafka's is another function of the same
  data, so a group that moves between Kafka and kwire goes to its next epoch once.

Source: Utils.computeTopicHash and computeGroupHash of Kafka 4.3; KIP-1101.
"""

from collections.abc import Iterable
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, Protocol


class _Fields(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class Topic(_Fields):
    """A topic; ``racks`` are those of each partition's replicas, empty if none is known."""

    @cached_property
    def fingerprint(self) -> bytes:
        """The topic's part of the hash, computed once because every member that joins needs it."""
        racks = [sorted(racks) for racks in self.racks]
        return repr((self.name, self.topic_id, self.partitions, racks)).encode()

    def is_near(self, partition: int, rack_id: str | None) -> bool:
        """Whether a partition has a replica in a rack."""
        return bool(self.racks) and rack_id in self.racks[partition]


class Topics(Protocol):
    """The topics of the cluster at one revision of the metadata."""

    @property
    def revision(self) -> int:
        """A number that grows with every change of the metadata."""
        ...

    def by_name(self, name: str) -> Topic | None:
        """A topic by its name."""

    def by_id(self, topic_id: bytes) -> Topic | None:
        """A topic by its id."""

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        ...


class TopicSet:
    """A fixed set of topics, as a ``Topics``."""

    def __init__(self, topics: Iterable[Topic] = (), revision: int = 0) -> None:
        self.revision = revision
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}

    def by_name(self, name: str) -> Topic | None:
        """A topic by its name."""
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """A topic by its id."""
        return self._by_id.get(topic_id)

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        return self._by_name


def hash_topics(names: Iterable[str], topics: Topics) -> int:
    """A signed 64-bit hash of these topics' metadata; 0 if none of them exists."""
    known = [topic for name in sorted(names) if (topic := topics.by_name(name)) is not None]
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for topic in known:
        digest.update(topic.fingerprint)
    return int.from_bytes(digest.digest(), "big", signed=True)
