"""The numbers of partitions that a topology's internal topics should have.

Rules:

- A repartition topic has the number that the topology gives it (then it is *fixed*), or else the
  highest number among the sources of the subtopology that writes it.
- The topics of a copartition group have the same number, for their records are joined. If there are
  source topics among them, theirs counts; else that of fixed topics, or else the highest.
- A changelog topic has one partition for each task of its subtopology.
- An existing topic counts as it is; ``configuration`` compares it with what it should be.

The numbers of a chain of subtopologies are found from its beginning. The subtopologies are looked
at in rounds, as Kafka looks at them, but each only when the number of one of its sources is new: a
chain in the wrong order would take as many rounds as it has links.

Sources: RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics of Kafka.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from kwire.coordinator.streams.records import CopartitionGroup, Subtopology
from kwire.coordinator.streams.topology.configured import StatusCode
from kwire.errors import ErrorCode, KafkaError

PartitionsOf: TypeAlias = Callable[[str], int | None]
"""The number of partitions of a topic in the cluster; None if there is no such topic."""


class TopicConfigurationError(Exception):
    """The cluster's topics aren't as the topology needs them; an operator can mend that."""

    def __init__(self, status: StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def invalid_topology(message: str) -> KafkaError:
    """The error of a topology that no topics could mend."""
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


class PartitionCounts:
    """The numbers of partitions of a topology's topics: those that exist, and those decided."""

    def __init__(self, subtopologies: list[Subtopology], partitions_of: PartitionsOf) -> None:
        self._subtopologies = subtopologies
        self._partitions_of = partitions_of
        self._repartition_topics = {
            topic.name: topic.partitions
            for subtopology in subtopologies
            for topic in subtopology.repartition_source_topics
        }
        self._fixed = {name: count for name, count in self._repartition_topics.items() if count}
        self.decided: dict[str, int] = {}
        """Of each internal topic, the number that it should have."""

    def decide(self) -> None:
        """Decide about all internal topics.

        Raises TopicConfigurationError if topics of a copartition group differ, and KafkaError
        (STREAMS_INVALID_TOPOLOGY) for a topology whose numbers can't be found. All source topics
        have to exist.
        """
        self._decide_repartition_topics()
        fixed_differ = len({self.count(name) for name in self._fixed}) > 1
        for subtopology in self._subtopologies:
            for group in subtopology.copartition_groups:
                self._make_equal(copartitioned(group, subtopology), fixed_differ=fixed_differ)
        for subtopology in self._subtopologies:
            tasks = self.tasks_of(subtopology)
            for topic in subtopology.state_changelog_topics:
                self.decided[topic.name] = tasks

    def count(self, topic: str) -> int | None:
        """The number of a topic that exists, or the number decided for one that doesn't."""
        existing = self._partitions_of(topic)
        return self.decided.get(topic) if existing is None else existing

    def tasks_of(self, subtopology: Subtopology) -> int:
        """The highest number among its sources, once the repartition topics are decided.

        Raises KafkaError (STREAMS_INVALID_TOPOLOGY) if it has no source.
        """
        counts = [self._known_count(topic) for topic in sources_of(subtopology)]
        if not counts:
            raise invalid_topology(
                f"No source topics found for subtopology {subtopology.subtopology_id}"
            )
        return max(counts)

    def _known_count(self, topic: str) -> int:
        count = self.count(topic)
        assert count is not None, f"the number of partitions of {topic} was decided before"
        return count

    def _decide_repartition_topics(self) -> None:
        """Raises KafkaError (STREAMS_INVALID_TOPOLOGY) where no number can be found."""
        self.decided.update(self._fixed)
        readers: dict[str, list[int]] = {}
        for index, subtopology in enumerate(self._subtopologies):
            for topic in subtopology.repartition_source_topics:
                readers.setdefault(topic.name, []).append(index)
        # (round, index): the order in which Kafka, which looks at all in each round, finds them
        turns = [
            (0, index)
            for index, subtopology in enumerate(self._subtopologies)
            if self._count_for_sinks(subtopology) is not None
        ]
        heapify(turns)
        while turns:
            turn, index = heappop(turns)
            for sink in self._decide_sinks(self._subtopologies[index]):
                for reader in readers.get(sink, ()):
                    heappush(turns, (turn + (reader <= index), reader))
        if any(sink not in self.decided for sink in self._sinks()):
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        if not self._repartition_topics.keys() <= self.decided.keys():
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic."
            )

    def _sinks(self) -> Iterator[str]:
        for subtopology in self._subtopologies:
            yield from subtopology.repartition_sink_topics

    def _decide_sinks(self, subtopology: Subtopology) -> list[str]:
        """Decide about the topics that a subtopology writes; returns those that are new."""
        count = self._count_for_sinks(subtopology)
        assert count is not None, "its turn comes after that of a source"
        new = [sink for sink in subtopology.repartition_sink_topics if sink not in self.decided]
        self.decided |= dict.fromkeys(new, count)
        return new

    def _count_for_sinks(self, subtopology: Subtopology) -> int | None:
        """The highest number among the sources that are known by now, as Kafka takes it."""
        known = [self._partitions_of(topic) for topic in subtopology.source_topics]
        known += [self.decided.get(t.name) for t in subtopology.repartition_source_topics]
        return max((count for count in known if count is not None), default=None)

    def _make_equal(self, topics: set[str], *, fixed_differ: bool) -> None:
        """Give the repartition topics of a copartition group the number of the group."""
        if not topics:
            return
        counts = {topic: self._known_count(topic) for topic in topics}
        repartition = {name: n for name, n in counts.items() if name in self._repartition_topics}
        sources = {name: n for name, n in counts.items() if name not in repartition}
        if sources:
            if len(set(sources.values())) > 1:
                raise _different(sources)
            wanted = next(iter(sources.values()))
        elif self._fixed:
            # Kafka takes the fixed topics of the whole topology, not of this group alone. Topics
            # that were created that way have to fit here as well.
            if fixed_differ:
                raise _different(repartition)
            wanted = self._known_count(next(iter(self._fixed)))
        else:
            wanted = max(repartition.values())
        for name in sorted(repartition):
            if name in self._fixed and repartition[name] != wanted:
                raise TopicConfigurationError(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{repartition[name]}] of repartition topic [{name}] "
                    f"doesn't match number of partitions [{wanted}] of the source topic.",
                )
            self.decided[name] = wanted


def sources_of(subtopology: Subtopology) -> Iterator[str]:
    """The names of all topics that a subtopology reads."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def copartitioned(group: CopartitionGroup, subtopology: Subtopology) -> set[str]:
    """The topics of a copartition group, which names them by their place in the subtopology.

    Raises KafkaError (STREAMS_INVALID_TOPOLOGY) for a place where there is no topic.
    """
    names = subtopology.source_topics
    internal = subtopology.repartition_source_topics
    if not all(0 <= i < len(names) for i in group.source_topics) or not all(
        0 <= i < len(internal) for i in group.repartition_source_topics
    ):
        raise invalid_topology(
            f"A copartition group of subtopology {subtopology.subtopology_id} has a topic that "
            "the subtopology doesn't read."
        )
    return {names[i] for i in group.source_topics} | {
        internal[i].name for i in group.repartition_source_topics
    }


def _different(counts: Mapping[str, int]) -> TopicConfigurationError:
    listed = ", ".join(f"{name}={counts[name]}" for name in sorted(counts))
    return TopicConfigurationError(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        f"Following topics do not have the same number of partitions: [{{{listed}}}]",
    )
