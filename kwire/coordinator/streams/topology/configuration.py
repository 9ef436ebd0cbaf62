"""Comparing a topology with the cluster's topics: which tasks it has, what is missing or wrong.

In this order, and the first that fails is the error: all source topics exist; the numbers of
partitions of the internal topics can be decided; the internal topics that exist have these numbers;
no internal topic is missing.

Source: InternalTopicManager of Kafka.
"""

from collections.abc import Iterable
from itertools import pairwise
from types import MappingProxyType

from kwire.coordinator.streams.records import (
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from kwire.coordinator.streams.topology.configured import (
    DEFAULT_REPLICATION_FACTOR,
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
    StatusCode,
)
from kwire.coordinator.streams.topology.partition_counts import (
    PartitionCounts,
    PartitionsOf,
    TopicConfigurationError,
    invalid_topology,
)

SHOWN_NAMES = 3
"""A message names this many topics, and says how many there are besides."""


def configure_topology(
    topology: StreamsGroupTopologyValue, partitions_of: PartitionsOf
) -> ConfiguredTopology:
    """Compare a topology with the topics of the cluster.

    Raises KafkaError (STREAMS_INVALID_TOPOLOGY) for a topology that fits no topics, such as one
    with a loop. What an operator or the broker can mend is the ``error`` of the result.
    """
    subtopologies = sorted(topology.subtopologies, key=lambda s: s.subtopology_id)
    _check_ids(subtopologies)
    try:
        _check_source_topics(subtopologies, partitions_of)
        counts = PartitionCounts(subtopologies, partitions_of)
        counts.decide()
        configured = {s.subtopology_id: _configure(s, counts) for s in subtopologies}
        missing = _missing_topics(configured.values(), partitions_of)
    except TopicConfigurationError as error:
        nothing: MappingProxyType[str, InternalTopic] = MappingProxyType({})
        return ConfiguredTopology(topology.epoch, {}, nothing, (error.status, error.message))
    problem = None
    if missing:
        text = f"Internal topics are missing: {shorten(missing)}"
        problem = (StatusCode.MISSING_INTERNAL_TOPICS, text)
    return ConfiguredTopology(topology.epoch, configured, missing, problem)


def shorten(topics: Iterable[str]) -> str:
    """The first names of a list, and how many more there are."""
    names = list(topics)
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(names[:SHOWN_NAMES])
    return f"{shown} and {more} additional topics" if more > 0 else shown


def _check_ids(subtopologies: list[Subtopology]) -> None:
    for before, after in pairwise(subtopologies):
        if before.subtopology_id == after.subtopology_id:
            raise invalid_topology(f"There are two subtopologies {after.subtopology_id}.")


def _check_source_topics(subtopologies: list[Subtopology], partitions_of: PartitionsOf) -> None:
    named = {topic for subtopology in subtopologies for topic in subtopology.source_topics}
    missing = sorted(topic for topic in named if partitions_of(topic) is None)
    if missing:
        raise TopicConfigurationError(
            StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {shorten(missing)} are missing."
        )


def _configure(subtopology: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        tasks=counts.tasks_of(subtopology),
        source_topics=frozenset(subtopology.source_topics),
        repartition_source_topics={
            topic.name: _internal_topic(topic, counts)
            for topic in subtopology.repartition_source_topics
        },
        repartition_sink_topics=frozenset(subtopology.repartition_sink_topics),
        state_changelog_topics={
            topic.name: _internal_topic(topic, counts)
            for topic in subtopology.state_changelog_topics
        },
    )


def _internal_topic(topic: TopicInfo, counts: PartitionCounts) -> InternalTopic:
    partitions = topic.partitions or counts.decided[topic.name]
    if partitions < 1:
        raise invalid_topology(f"Topic {topic.name} has {partitions} partitions.")
    return InternalTopic(
        topic.name,
        partitions,
        topic.replication_factor or DEFAULT_REPLICATION_FACTOR,
        {config.key: config.value for config in topic.topic_configs},
    )


def _missing_topics(
    subtopologies: Iterable[ConfiguredSubtopology], partitions_of: PartitionsOf
) -> dict[str, InternalTopic]:
    """The internal topics that don't exist, by name and in the order of the names."""
    wanted: dict[str, InternalTopic] = {}
    for subtopology in subtopologies:
        wanted |= subtopology.repartition_source_topics
        wanted |= subtopology.state_changelog_topics
    missing = {}
    for name in sorted(wanted):
        found = partitions_of(name)
        if found is None:
            missing[name] = wanted[name]
        elif found != wanted[name].partitions:
            raise TopicConfigurationError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected "
                f"{wanted[name].partitions}, found {found}",
            )
    return missing
