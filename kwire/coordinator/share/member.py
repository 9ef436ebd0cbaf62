"""A member of a share group: its description, and its partitions.

Rules:

- A member object never changes: a change makes a new one. If both are equal, no record is needed.
- Several members may have the same partition, so a member takes its target as soon as it hears of
  it: there is nothing to give back, and nobody to wait for.

Source: ShareGroupMember of Kafka 4.4.
"""

from types import MappingProxyType
from typing import NamedTuple

from kwire.coordinator.consumer.member import Partitions, target_to_record
from kwire.coordinator.consumer.records import TargetPartitions
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.share.records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    target_assignment_member,
)

NO_PARTITIONS: Partitions = MappingProxyType({})

_STABLE = 0
"""The only state of a member of a share group that a record has."""


class ShareMember(NamedTuple):
    """A member; ``topics`` are the names it subscribes to, sorted."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = NO_PARTITIONS

    def is_described_as(self, other: "ShareMember") -> bool:
        """Whether both have the same description."""
        return self[1:5] == other[1:5]

    def description(self) -> ShareGroupMemberMetadataValue:
        """The member's description in the form of its record."""
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topics),
        )

    def assignment(self) -> ShareGroupCurrentMemberAssignmentValue:
        """The member's partitions in the form of their record."""
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=_STABLE,
            assigned_partitions=[
                TargetPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in sorted(self.assigned.items())
            ],
        )

    def with_description(self, value: ShareGroupMemberMetadataValue) -> "ShareMember":
        """The member as a record describes it."""
        return self._replace(
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(sorted(set(value.subscribed_topic_names))),
        )

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> "ShareMember":
        """The member with the partitions of a record."""
        return self._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned={
                topic.topic_id: frozenset(topic.partitions)
                for topic in value.assigned_partitions
                if topic.partitions
            },
        )

    def without_assignment(self) -> "ShareMember":
        """The member as it was before its first assignment."""
        return self._replace(epoch=0, previous_epoch=-1, assigned=NO_PARTITIONS)


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """The record of a member's target."""
    return target_assignment_member(group_id, member_id, target_to_record(target))
