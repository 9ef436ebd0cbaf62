"""The input and the result of an assignor."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

Partition: TypeAlias = tuple[bytes, int]
"""A topic id and an index."""

Shares: TypeAlias = dict[str, dict[bytes, frozenset[int]]]
"""The partitions that each member is to have; members without a partition are in it too."""


NO_RACKS: frozenset[str] = frozenset()


class Subscriber(NamedTuple):
    """A member: the ids of the topics it reads, its present target, its instance and its rack."""

    topics: frozenset[bytes]
    has: Mapping[bytes, frozenset[int]]
    instance_id: str | None = None
    rack_id: str | None = None


class AssignedTopic(NamedTuple):
    """A topic to share out; ``racks`` are those of each partition's replicas, if known."""

    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class AssignmentSpec(NamedTuple):
    """Members by id, and by id every topic that at least one member reads."""

    members: Mapping[str, Subscriber]
    topics: Mapping[bytes, AssignedTopic]

    def racks_of(self, partition: Partition) -> frozenset[str]:
        """The racks of a partition's replicas, empty if none is known."""
        racks = self.topics[partition[0]].racks
        return racks[partition[1]] if racks else NO_RACKS

    def is_near(self, member_id: str, partition: Partition) -> bool:
        """Whether a partition has a replica in the member's rack."""
        return self.members[member_id].rack_id in self.racks_of(partition)

    @property
    def knows_racks(self) -> bool:
        """Whether racks can make a difference to the assignment."""
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
    """The shares of members, from the sets of partitions that they were given."""
    shares: Shares = {}
    for member_id in spec.members:
        topics: dict[bytes, set[int]] = {}
        for topic_id, index in given.get(member_id, ()):
            topics.setdefault(topic_id, set()).add(index)
        shares[member_id] = {topic_id: frozenset(p) for topic_id, p in topics.items()}
    return shares
