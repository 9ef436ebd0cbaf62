"""A topology that was compared with the cluster's topics: its tasks, and what is wrong or missing.

Source: ConfiguredTopology, ConfiguredSubtopology and ConfiguredInternalTopic of Kafka.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

DEFAULT_REPLICATION_FACTOR = -1
"""In a new topic: as many replicas as the broker's ``default.replication.factor`` says."""


class StatusCode(IntEnum):
    """What the answer to a heartbeat says about the group, besides errors (KIP-1071)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic as it should be; ``configs`` are a topic's settings."""

    name: str
    partitions: int
    replication_factor: int = DEFAULT_REPLICATION_FACTOR
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A part of the topology that runs as a whole: one task for each partition of its sources."""

    tasks: int
    source_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    repartition_sink_topics: frozenset[str]
    state_changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have stores, so that standby tasks can keep copies of them."""
        return bool(self.state_changelog_topics)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The result of ``configure_topology``.

    ``subtopologies`` by id, in the order of the ids, are empty if the numbers of partitions could
    not be decided. ``internal_topics_to_create`` are those that don't exist, by name. ``error`` is
    a status code with Kafka's message.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    internal_topics_to_create: Mapping[str, InternalTopic]
    error: tuple[StatusCode, str] | None

    @property
    def ready(self) -> bool:
        """Whether every topic exists as it should, so that tasks can be assigned."""
        return self.error is None
