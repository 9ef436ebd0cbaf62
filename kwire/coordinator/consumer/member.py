"""A member of a consumer group: its description, its partitions, and its state.

Rules:

- A member object never changes: a change makes a new one. If both are equal, no record is needed.
- Each assigned partition carries the epoch at which it was assigned. With a commit of an older
  epoch, a member may commit the partitions that it had then, and no others.
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
"""Partitions by topic id; a topic without partitions is left out."""

Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch at which it was assigned."""

NOTHING_OWNED: Owned = MappingProxyType({})

CONSUMER_MEMBER_TYPE = 1
CLASSIC_MEMBER_TYPE = 0


class MemberState(IntEnum):
    """A member's progress towards its target; the numbers stand in records."""

    STABLE = 0
    """The member has the target of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member has to give partitions back before it reaches the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members haven't given back."""
    UNKNOWN = 127
    """A newer broker has written a state that is unknown here."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


class ClassicMember(NamedTuple):
    """Data of members that use the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Description(NamedTuple):
    """A member's description of itself; ``topics`` are the names it subscribes to, sorted."""

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
        """The description in the form of its record."""
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
        """The description that a record holds."""
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
    """A member; ``assigned`` are its partitions, ``revoking`` those it has to give back."""

    member_id: str
    about: Description = Description()
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOTHING_OWNED
    revoking: Owned = NOTHING_OWNED

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.about.classic is not None

    @property
    def owned(self) -> Partitions:
        """The member's partitions, including those that it has to give back."""
        return {
            topic_id: frozenset(
                {*self.assigned.get(topic_id, ()), *self.revoking.get(topic_id, ())}
            )
            for topic_id in {**self.assigned, **self.revoking}
        }

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has exactly the partitions of an epoch's target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch at which the member got a partition; None if it doesn't have it."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def moved_to(self, epoch: int) -> "ConsumerMember":
        """The member at an epoch, with its present epoch as the previous one."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def description(self) -> MemberMetadataValue:
        """The member's description in the form of its record."""
        return self.about.to_record()

    def assignment(self) -> CurrentMemberAssignmentValue:
        """The member's partitions in the form of their record."""
        return CurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=_owned_to_record(self.assigned),
            partitions_pending_revocation=_owned_to_record(self.revoking),
        )

    def with_description(self, value: MemberMetadataValue) -> "ConsumerMember":
        """The member as a record describes it."""
        return self._replace(about=Description.from_record(value))

    def with_assignment(self, value: CurrentMemberAssignmentValue) -> "ConsumerMember":
        """The member with the partitions of a record."""
        return self._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_owned_from_record(value.assigned_partitions),
            revoking=_owned_from_record(value.partitions_pending_revocation),
        )

    def without_assignment(self) -> "ConsumerMember":
        """The member without partitions, as it was before its first assignment."""
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
    """The partitions of a record.

    A record from before KIP-1251 has no epochs: then any commit is allowed.
    """
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


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """The record of a member's target, with the same target as its content."""
    record = target_assignment_member(group_id, member_id, target_to_record(target))
    said = {topic_id: indexes for topic_id, indexes in target.items() if indexes}
    return record._replace(content=WrittenTarget(group_id, member_id, said))


def target_to_record(partitions: Partitions) -> TargetAssignmentMemberValue:
    """A member's target in the form of its record."""
    return TargetAssignmentMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
        ]
    )


def target_from_record(value: TargetAssignmentMemberValue) -> Partitions:
    """The target that a record holds."""
    return {t.topic_id: frozenset(t.partitions) for t in value.topic_partitions if t.partitions}
