"""What consumer groups see of the topics of the cluster, and a hash that tells when it changes.

Rules:

- A group's epoch is bumped when the hash of the topics it subscribes to is another. Topics that
  don't exist count too: they are there as soon as they are created.
- The hash is no secret and no fingerprint for others: Kafka's is another function of the same
  things, so that a group which changes brokers goes to its next epoch once.

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
    """A topic; ``racks`` are those of each partition's replicas, empty where none is known."""

    @cached_property
    def fingerprint(self) -> bytes:
        """What goes into the hash: made once, since every member that joins asks for it."""
        racks = [sorted(racks) for racks in self.racks]
        return repr((self.name, self.topic_id, self.partitions, racks)).encode()

    def is_near(self, partition: int, rack_id: str | None) -> bool:
        """Whether a partition has a replica in a rack."""
        return bool(self.racks) and rack_id in self.racks[partition]


class Topics(Protocol):
    """The topics of the cluster at one revision."""

    @property
    def revision(self) -> int:
        """Grows with every change of the metadata."""
        ...

    def by_name(self, name: str) -> Topic | None:
        """A topic by its name."""

    def by_id(self, topic_id: bytes) -> Topic | None:
        """A topic by its id."""

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        ...


class TopicSet:
    """Topics that are given: a ``Topics`` of its own."""

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
    """A signed 64-bit hash of what is known of these topics; 0 where none of them exists."""
    known = [topic for name in sorted(names) if (topic := topics.by_name(name)) is not None]
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for topic in known:
        digest.update(topic.fingerprint)
    return int.from_bytes(digest.digest(), "big", signed=True)
