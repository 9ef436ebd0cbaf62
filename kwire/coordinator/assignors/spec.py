"""What an assignor is asked, and what it answers."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

Partition: TypeAlias = tuple[bytes, int]
"""A topic id and an index."""

Shares: TypeAlias = dict[str, dict[bytes, frozenset[int]]]
"""What each member is to have; members without anything are there too."""


NO_RACKS: frozenset[str] = frozenset()


class Subscriber(NamedTuple):
    """A member: the ids of the topics it reads, what it is to have so far, where it runs."""

    topics: frozenset[bytes]
    has: Mapping[bytes, frozenset[int]]
    instance_id: str | None = None
    rack_id: str | None = None


class AssignedTopic(NamedTuple):
    """A topic to share out; ``racks`` are those of each partition's replicas, if known."""

    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class AssignmentSpec(NamedTuple):
    """Members by id, and every topic that one of them reads, by id."""

    members: Mapping[str, Subscriber]
    topics: Mapping[bytes, AssignedTopic]

    def racks_of(self, partition: Partition) -> frozenset[str]:
        """The racks of a partition's replicas, empty where none is known."""
        racks = self.topics[partition[0]].racks
        return racks[partition[1]] if racks else NO_RACKS

    def is_near(self, member_id: str, partition: Partition) -> bool:
        """Whether a partition has a replica in the member's rack."""
        return self.members[member_id].rack_id in self.racks_of(partition)

    @property
    def knows_racks(self) -> bool:
        """Whether racks can make a difference."""
        return any(topic.racks for topic in self.topics.values()) and any(
            member.rack_id for member in self.members.values()
        )

    def readers(self) -> dict[bytes, list[str]]:
        """The members that read each topic, in the order of their ids."""
        readers: dict[bytes, list[str]] = {topic_id: [] for topic_id in sorted(self.topics)}
        for member_id in sorted(self.members):
            for topic_id in self.members[member_id].topics:
                readers[topic_id].append(member_id)
        return readers


def to_shares(spec: AssignmentSpec, given: Mapping[str, set[Partition]]) -> Shares:
    """What members are to have, from the partitions each was given."""
    shares: Shares = {}
    for member_id in spec.members:
        topics: dict[bytes, set[int]] = {}
        for topic_id, index in given.get(member_id, ()):
            topics.setdefault(topic_id, set()).add(index)
        shares[member_id] = {topic_id: frozenset(p) for topic_id, p in topics.items()}
    return shares
