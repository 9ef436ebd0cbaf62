"""A consumer group: its members, the target of each member, and the owner of each partition.

States, and the events that lead from one to the next::

    EMPTY → ASSIGNING        a member joins: the group's epoch is ahead of its target's epoch
    ASSIGNING → RECONCILING  the target is computed for the group's epoch
    RECONCILING → STABLE     every member has its target's partitions, at the target's epoch
    STABLE, … → ASSIGNING    a member joins or leaves, a subscription or its topics change
    any → EMPTY              the last member leaves

This module only keeps the state; ``GroupUpdate`` changes a copy. All state comes from records,
except the timers, the heartbeat interval, the views, and the revision of the metadata that the
group has seen last.

Source: ConsumerGroup and ModernGroup of Kafka 4.3.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self, TypeAlias

from kwire.coordinator.consumer.layered_dict import LayeredDict
from kwire.coordinator.consumer.member import (
    ConsumerMember,
    Owned,
    Partitions,
    target_from_record,
    target_record,
)
from kwire.coordinator.consumer.records import (
    RECORDS,
    partition_metadata,
    regular_expression,
)
from kwire.coordinator.consumer_subscription import CONSUMER_PROTOCOL_TYPE
from kwire.coordinator.group import Committer, GroupType
from kwire.coordinator.joining import Visible
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.static_group import STABLE_STATE, StaticGroup
from kwire.errors import ErrorCode, KafkaError

COMMIT_VERSION = 9
"""The first version of OffsetCommit with member epochs."""

NO_PARTITIONS: Partitions = {}

Subscription: TypeAlias = tuple[tuple[str, ...], str]
"""The names and the expression by which members subscribe."""


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches, as of a revision of the metadata."""

    topics: frozenset[str]
    revision: int
    timestamp_ms: int


class View(NamedTuple):
    """The topics that a regular expression may match: those that a subscribing member may see."""

    member_id: str
    visible: Visible


class ConsumerGroup(StaticGroup[ConsumerMember, Partitions]):
    """One group.

    ``owners`` names the member that has a partition, or is still giving it back. ``classic_count``
    is how many members use the classic protocol.
    """

    kind = GroupType.CONSUMER
    records = RECORDS
    UNASSIGNED_EPOCH = 0

    new_member = ConsumerMember
    no_target = NO_PARTITIONS
    target_record = staticmethod(target_record)
    target_from_record = staticmethod(target_from_record)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.owners: LayeredDict[tuple[bytes, int], str] = LayeredDict()
        self.classic_count = 0
        self.regexes: dict[str, ResolvedRegex] = {}
        self.views: dict[str, View] = {}
        self.has_partition_metadata = False
        self.seen_revision = -1

    def copy(self) -> Self:
        """A copy for an update; it shares the original's timers, heartbeat interval and views."""
        group = super().copy()
        group.classic_count = self.classic_count
        group.owners = self.owners.copy()
        group.regexes = dict(self.regexes)
        group.has_partition_metadata = self.has_partition_metadata
        group.views, group.seen_revision = self.views, self.seen_revision
        return group

    @staticmethod
    def subscription_of(member: ConsumerMember) -> Subscription:
        """The names and the expression by which a member subscribes."""
        return member.about.topics, member.about.regex

    # Changes by records

    def _count(self, member: ConsumerMember) -> None:
        super()._count(member)
        self.classic_count += member.is_classic
        for partition in _owned_by(member):
            self.owners[partition] = member.member_id

    def _uncount(self, member: ConsumerMember) -> None:
        super()._uncount(member)
        self.classic_count -= member.is_classic
        assert self.classic_count >= 0, self.group_id
        for partition in _owned_by(member):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    # Questions about the group

    @property
    def protocol_type_name(self) -> str:
        """The protocol type that ListGroups shows."""
        return CONSUMER_PROTOCOL_TYPE

    @property
    def has_nothing_to_share(self) -> bool:
        """Whether no member has a partition or a target: then no heartbeat brings any news."""
        is_assigned = self.epoch == self.target_epoch
        return is_assigned and not self.owners and not any(self.targets.values())

    @property
    def is_settled(self) -> bool:
        """Whether every member has the partitions of the target, and the target is the last."""
        return self.state_name == STABLE_STATE

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Whether a member has this partition."""
        return (topic_id, partition) in self.owners

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics to which a member subscribes, by name or by its expression."""
        return topics_of(self.subscription_of(member), self.regexes)

    def subscribed_topics(self) -> frozenset[str]:
        """The names of the topics to which any member subscribes."""
        return frozenset().union(*(topics_of(one, self.regexes) for one in self.subscriptions))

    def subscribed_regexes(self) -> set[str]:
        """The expressions by which any member subscribes."""
        return {regex for _, regex in self.subscriptions} - {""}

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members ask for."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.about.assignor is not None:
                votes[member.about.assignor] = votes.get(member.about.assignor, 0) + 1
        return max(votes, key=lambda name: (votes[name], name), default=default)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still has a partition of this member's target."""
        return any(
            partition not in member.assigned.get(topic_id, {})
            and self.is_owned(topic_id, partition)
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
        )

    # Offsets

    def check_commit(self, committer: Committer, now_ms: int) -> None:
        """Check that a client may commit at all; ``check_commit_of`` checks one partition.

        Raises KafkaError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, and for an epoch that the member
        hasn't reached STALE_MEMBER_EPOCH (ILLEGAL_GENERATION in the classic protocol).
        """
        if committer.generation < 0 and not self.members:
            return
        is_nobody = not committer.member_id and committer.instance_id is None
        if committer.is_transactional and committer.generation < 0 and is_nobody:
            return
        member = self.members.get(committer.member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        old = committer.api_version < COMMIT_VERSION
        if old and not committer.is_transactional and not member.is_classic:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members of the consumer protocol",
            )
        if committer.generation > member.epoch:
            raise self._stale(member, f"The member is at epoch {member.epoch}.")

    def check_commit_of(
        self, committer: Committer, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """Check that a member may commit this partition: at an older epoch, only if it had it then.

        Raises KafkaError: STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
        """
        member = self.members.get(committer.member_id)
        if member is None or committer.generation == member.epoch:
            return
        epoch = member.assignment_epoch(topic_id, partition)
        if epoch is None or committer.generation < epoch:
            raise self._stale(member, f"The member is at epoch {member.epoch}.")

    def _stale(self, member: ConsumerMember, text: str) -> KafkaError:
        if member.is_classic:
            return KafkaError(ErrorCode.ILLEGAL_GENERATION, text)
        return super()._stale(member, text)

    def own_tombstones(self) -> list[CoordinatorRecord]:
        """The tombstones of expressions, and of the record in which an older Kafka had topics."""
        records = [regular_expression(self.group_id, regex, None) for regex in self.regexes]
        if self.has_partition_metadata:
            records.append(partition_metadata(self.group_id, None))
        return records


def topics_of(subscription: Subscription, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The names of the topics of a subscription, with ``regexes`` for expressions."""
    topics, regex = subscription
    resolved = regexes.get(regex) if regex else None
    names = frozenset(topics)
    return names | resolved.topics if resolved is not None else names


def _owned_by(member: ConsumerMember) -> Iterable[tuple[bytes, int]]:
    held: tuple[Owned, Mapping[bytes, Mapping[int, int]]] = (member.assigned, member.revoking)
    for owned in held:
        for topic_id, partitions in owned.items():
            for partition in partitions:
                yield topic_id, partition
