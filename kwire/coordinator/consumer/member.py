"""A member of a consumer group: what it says of itself, what it has, and how far it has come.

Rules:

- A member never changes: the next one is made from it. What is equal needs no record.
- Each partition it has carries the epoch at which it was assigned: with a commit of an older
  epoch a member may still commit what it had then, and nothing else.
- A static member that is away for a while has the epoch -2 and keeps its partitions.

Source: ConsumerGroupMember and MemberState of Kafka 4.3; KIP-848, KIP-1251.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from kwire.coordinator.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentMemberAssignmentValue,
    MemberMetadataValue,
    OwnedPartitions,
    TargetAssignmentMemberValue,
    TargetPartitions,
    target_assignment_member,
)
from kwire.coordinator.records import CoordinatorRecord, WrittenTarget

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; no topic is there without a partition."""

Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch at which it was assigned."""

NOTHING_OWNED: Owned = MappingProxyType({})

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2

CONSUMER_MEMBER_TYPE = 1
CLASSIC_MEMBER_TYPE = 0


class MemberState(IntEnum):
    """How far a member has come on the way to its target; the numbers stand in records."""

    STABLE = 0
    """It has what it is to have at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It has to give partitions back before it gets to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others haven't given back."""
    UNKNOWN = 127
    """A state that a newer broker has written."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


class ClassicMember(NamedTuple):
    """What is only known of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Description(NamedTuple):
    """What a member says of itself; ``topics`` are the names it subscribes to, sorted."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None

    def to_record(self) -> MemberMetadataValue:
        """As it is kept."""
        classic = self.classic
        return MemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topics),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols
                ],
            ),
        )

    @classmethod
    def from_record(cls, value: MemberMetadataValue) -> "Description":
        """What was kept."""
        classic = value.classic_member_metadata
        return cls(
            value.instance_id,
            value.rack_id,
            value.client_id,
            value.client_host,
            tuple(sorted(value.subscribed_topic_names)),
            value.subscribed_topic_regex or "",
            value.rebalance_timeout_ms,
            value.server_assignor,
            None
            if classic is None
            else ClassicMember(
                classic.session_timeout_ms,
                tuple((p.name, p.metadata) for p in classic.supported_protocols),
            ),
        )


class ConsumerMember(NamedTuple):
    """A member; ``assigned`` is what it has for good, ``revoking`` what it is to give back."""

    member_id: str
    about: Description = Description()
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOTHING_OWNED
    revoking: Owned = NOTHING_OWNED

    @property
    def is_classic(self) -> bool:
        """Whether it uses the classic protocol."""
        return self.about.classic is not None

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that has left for a while."""
        return self.epoch == STATIC_LEAVING_EPOCH

    @property
    def owned(self) -> Partitions:
        """What it has, with what it is to give back."""
        return {
            topic_id: frozenset(
                {*self.assigned.get(topic_id, ()), *self.revoking.get(topic_id, ())}
            )
            for topic_id in {**self.assigned, **self.revoking}
        }

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has everything that an epoch gives it, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch at which it was given a partition; None for one it doesn't have."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def moved_to(self, epoch: int) -> "ConsumerMember":
        """The member at an epoch; the one before it is remembered."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def to_record(self) -> CurrentMemberAssignmentValue:
        """What it has, as it is kept."""
        return CurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=_owned_to_record(self.assigned),
            partitions_pending_revocation=_owned_to_record(self.revoking),
        )

    def with_record(self, value: CurrentMemberAssignmentValue) -> "ConsumerMember":
        """The member with what was kept of what it has."""
        return self._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_owned_from_record(value.assigned_partitions),
            revoking=_owned_from_record(value.partitions_pending_revocation),
        )

    def without_assignment(self) -> "ConsumerMember":
        """The member as it was before it was given anything."""
        return ConsumerMember(self.member_id, self.about)


def _owned_to_record(owned: Owned) -> list[OwnedPartitions]:
    return [
        OwnedPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[index] for index in sorted(partitions)],
        )
        for topic_id, partitions in sorted(owned.items())
    ]


def _owned_from_record(topics: Iterable[OwnedPartitions]) -> Owned:
    """Records of before KIP-1251 say no epochs; then a commit of any epoch will do."""
    return {
        topic.topic_id: dict(
            zip(
                topic.partitions,
                topic.assignment_epochs or [0] * len(topic.partitions),
                strict=False,
            )
        )
        for topic in topics
        if topic.partitions
    }


def target_record(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    """The record of what a member is to have, and what it says."""
    record = target_assignment_member(group_id, member_id, target_to_record(partitions))
    said = {topic_id: indexes for topic_id, indexes in partitions.items() if indexes}
    return record._replace(content=WrittenTarget(group_id, member_id, said))


def target_to_record(partitions: Partitions) -> TargetAssignmentMemberValue:
    """What a member is to have, as it is kept."""
    return TargetAssignmentMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
        ]
    )


def target_from_record(value: TargetAssignmentMemberValue) -> Partitions:
    """What a member is to have, as it was kept."""
    return {t.topic_id: frozenset(t.partitions) for t in value.topic_partitions if t.partitions}
