"""A group's question to an assignor: which member is to have which partitions?

A question holds only data that doesn't change, so that a thread can answer it. A question that
``is_quick`` takes less time than handing it to a thread would.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kwire.coordinator.assignors import ASSIGNORS
from kwire.coordinator.assignors.spec import AssignedTopic, AssignmentSpec, Shares, Subscriber
from kwire.coordinator.consumer.group import NO_PARTITIONS, ResolvedRegex, topics_of
from kwire.coordinator.consumer.member import ConsumerMember, Partitions, target_record
from kwire.coordinator.consumer.topics import Topic, Topics
from kwire.coordinator.records import CoordinatorRecord

QUICK_COST = 1_000
"""The highest cost of a quick answer, in partitions to share out; it takes one or two ms."""

TOPICS_AT_THE_COST_OF_ONE = 10
"""A topic of a member costs a tenth of a partition."""


class Assignment(NamedTuple):
    """The partitions of each member, and records for the members whose partitions have changed."""

    shares: Shares
    records: Mapping[str, CoordinatorRecord] = MappingProxyType({})


class AssignmentQuestion(NamedTuple):
    """The assignor's name, the members, the present target of each member, and the topics."""

    assignor: str
    members: Mapping[str, ConsumerMember]
    targets: Mapping[str, Partitions]
    regexes: Mapping[str, ResolvedRegex]
    topics: Topics

    @property
    def is_quick(self) -> bool:
        """Whether the answer takes no longer than one or two ms."""
        matched = {regex: len(resolved.topics) for regex, resolved in self.regexes.items()}
        pairs = sum(
            len(member.about.topics) + matched.get(member.about.regex, 0)
            for member in self.members.values()
        )
        cost = len(self.members) + pairs // TOPICS_AT_THE_COST_OF_ONE
        if cost > QUICK_COST:  # the result no longer depends on the topics
            return False
        topics = {t.name: t for read in self._by_subscription().values() for t in read}
        partitions = sum(topic.partitions for topic in topics.values())
        racks = {member.about.rack_id for member in self.members.values()}
        return cost + partitions * len(racks) <= QUICK_COST

    @property
    def member_ids(self) -> Iterable[str]:
        """The members that are assigned to."""
        return self.members

    def answer(self) -> Shares:
        """The partitions that each member is to have."""
        return ASSIGNORS[self.assignor](self._spec())

    def answer_with_records(self, group_id: str) -> Assignment:
        """The same answer with the records to write for it, which take as long again."""
        shares = self.answer()
        records = {
            member_id: target_record(group_id, member_id, partitions)
            for member_id, partitions in shares.items()
            if partitions != self.targets.get(member_id)
        }
        return Assignment(shares, records)

    def _by_subscription(self) -> dict[tuple[tuple[str, ...], str], list[Topic]]:
        """The topics that exist of each subscription: its names and its regular expression."""
        found: dict[tuple[tuple[str, ...], str], list[Topic]] = {}
        for member in self.members.values():
            key = (member.about.topics, member.about.regex)
            if key not in found:
                names = topics_of(key, self.regexes)
                known = (self.topics.by_name(name) for name in names)
                found[key] = [topic for topic in known if topic is not None]
        return found

    def _spec(self) -> AssignmentSpec:
        topics: dict[bytes, AssignedTopic] = {}
        read: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
        for key, found in self._by_subscription().items():
            read[key] = frozenset(topic.topic_id for topic in found)
            topics.update((t.topic_id, AssignedTopic(t.partitions, t.racks)) for t in found)
        subscribers = {
            member_id: Subscriber(
                read[member.about.topics, member.about.regex],
                self.targets.get(member_id, NO_PARTITIONS),
                member.about.instance_id,
                member.about.rack_id,
            )
            for member_id, member in self.members.items()
        }
        return AssignmentSpec(subscribers, topics)
