"""The controller's decisions: (image, command) → changes, or a KafkaError with the reason.

Rules:

- The functions are pure: a decision depends on the arguments alone. Random ids come from the
  argument ``random``.
- A decision is valid only for the image that it was made on. The store compares the revisions
  when it commits the changes.
- ``placement`` chooses the brokers of new replicas. A broker that is fenced or shuts down gets
  replicas, but they aren't in sync and don't lead.

Source: ReplicationControlManager, ConfigurationControlManager of Kafka.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from kwire.metadata.config_checks import check_configs
from kwire.metadata.cordons import brokers_with_room
from kwire.metadata.features import CHANGES_VERSION, REPLICATION_LEVEL
from kwire.metadata.image import ConfigResourceType, MetadataImage, TopicImage
from kwire.metadata.placement import Placer, Steps, assigned, at_once, placed

MAX_TOPIC_NAME_LENGTH = 249
MAX_PARTITIONS_PER_REQUEST = 10_000
MAX_RECORDS_PER_REQUEST = 10_000
"""Kafka's limit: it writes a record for each topic, partition and config, all in one batch."""

PRODUCER_ID_BLOCK = 1000

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_RESERVED_IDS = frozenset({bytes(16), bytes(15) + b"\x01"})


class NewTopic(NamedTuple):
    """A topic to create.

    ``assignments`` maps each partition to its node ids. If it is empty, kwire places the replicas.
    """

    name: str
    partitions: int
    replication_factor: int
    assignments: Mapping[int, Sequence[int]] = {}
    configs: Mapping[str, str] = {}


class RequestTooLarge(KafkaError):
    """A request asks for more than one request may create.

    The controller creates nothing for it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


class TakenNames:
    """The names of an image's topics, with which the name of a new topic must not collide.

    Two names collide if they differ only in '.' and '_': Kafka refuses such names, because the two
    topics would share the names of their metrics. The class prepares the names once for all new
    topics of a request.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.topics_by_name
        self._folded: dict[str, str] | None = None

    def check(self, name: str) -> None:
        """Raise KafkaError if ``name`` is taken (TOPIC_ALREADY_EXISTS) or collides.

        A collision is INVALID_TOPIC_EXCEPTION.
        """
        if name in self._topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "." not in name and "_" not in name:
            return
        if self._folded is None:
            self._folded = {
                other.replace(".", "_"): other
                for other in self._topics
                if "." in other or "_" in other
            }
        other = self._folded.get(name.replace(".", "_"))
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )


class TopicCreation:
    """The topics that one request creates; one commit writes all ``changes``.

    As in Kafka, one request creates at most 10,000 partitions, and at most 10,000 records: one for
    each topic, each partition and each config.
    """

    def __init__(
        self,
        image: MetadataImage,
        random: Random,
        partitions: int,
        allow: Callable[[int], None] | None = None,
    ) -> None:
        """Begin a request for ``partitions`` partitions in all its topics; RequestTooLarge.

        ``allow`` is called before each topic that can be created, with the number of its
        partitions. It raises KafkaError for a topic that exceeds a quota.
        """
        check_partition_total(partitions)
        self.changes: list[Change] = []
        self._image = image
        self._random = random
        self._taken = TakenNames(image)
        self._records = 0
        self._allow = allow

    def add(self, topic: NewTopic) -> Steps[TopicImage]:
        """Create one more topic; KafkaError as in ``topic_in_steps``, or RequestTooLarge."""
        changes = yield from topic_in_steps(self._image, topic, self._random, self._taken)
        created = changes[-1]
        assert isinstance(created, TopicCreated)
        assert created.topic.name == topic.name, (created.topic.name, topic.name)
        if self._allow is not None:
            self._allow(len(created.topic.partitions))
        self._records += len(changes) + len(created.topic.partitions)
        if self._records > MAX_RECORDS_PER_REQUEST:
            raise RequestTooLarge("Unable to perform excessively large batch operation.")
        self.changes += changes
        return created.topic


def check_level(image: MetadataImage, most_replicas: int) -> None:
    """Raise KafkaError for several replicas in a cluster that an older kwire may follow.

    The code is INVALID_REPLICATION_FACTOR.
    """
    if most_replicas > 1 and 0 < image.feature_level(CHANGES_VERSION) < REPLICATION_LEVEL:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"A replication factor of {most_replicas} needs level {REPLICATION_LEVEL} of "
            f"{CHANGES_VERSION}. When all brokers are up to date: "
            "kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature "
            f"{CHANGES_VERSION}={REPLICATION_LEVEL}",
        )


def check_topic_name(name: str) -> None:
    """Raise KafkaError (INVALID_TOPIC_EXCEPTION) for a name that no topic may have."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = "'.' and '..' are not allowed"
    elif len(name) > MAX_TOPIC_NAME_LENGTH:
        problem = f"it has {len(name)} characters, at most {MAX_TOPIC_NAME_LENGTH} are allowed"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = "only ASCII letters, digits, '.', '_' and '-' are allowed"
    else:
        return
    raise KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name {name!r} is invalid: {problem}"
    )


def create_topic(
    image: MetadataImage, topic: NewTopic, random: Random, taken: TakenNames | None = None
) -> list[Change]:
    """``topic_in_steps``, at once."""
    return at_once(topic_in_steps(image, topic, random, taken))


def topic_in_steps(
    image: MetadataImage, topic: NewTopic, random: Random, taken: TakenNames | None = None
) -> Steps[list[Change]]:
    """The changes that create a topic, its configs first.

    ``taken`` has the names of the image's topics; a caller with many topics makes it once.

    Raises KafkaError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG.
    """
    check_topic_name(topic.name)
    (taken or TakenNames(image)).check(topic.name)
    if topic.assignments:
        made = yield from assigned(image, topic.assignments)
    else:
        _check_count(topic.partitions)
        placer = Placer(brokers_with_room(image), random)
        made = yield from placed(image, placer, topic.partitions, topic.replication_factor)
    check_level(image, len(made[0].replicas))
    check_configs(ConfigResourceType.TOPIC, topic.configs, {})
    topic_id = _new_topic_id(image, random)
    changes: list[Change] = [
        ConfigChanged(ConfigResourceType.TOPIC, topic.name, name, value)
        for name, value in topic.configs.items()
    ]
    changes.append(TopicCreated(TopicImage(topic.name, topic_id, tuple(made), len(made))))
    return changes


def delete_topic(image: MetadataImage, topic_id: bytes) -> list[Change]:
    """The changes that delete a topic; KafkaError (UNKNOWN_TOPIC_ID) if no topic has the id."""
    if topic_id not in image.topics_by_id:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return [TopicDeleted(topic_id)]


def add_partitions(
    image: MetadataImage,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    random: Random,
) -> list[Change]:
    """``partitions_in_steps``, at once."""
    return at_once(partitions_in_steps(image, name, count, assignments, random))


def partitions_in_steps(
    image: MetadataImage,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    random: Random,
) -> Steps[list[Change]]:
    """The changes that raise a topic's number of partitions to ``count``.

    ``assignments`` are the node ids of each new partition; None lets kwire place them. Raises
    KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT.
    """
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        )
    current = len(topic.partitions)
    if count <= current:
        was = f"already has {count}" if count == current else f"currently has {current}, more than"
        more = "" if count == current else f" {count}"
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic {name} {was}{more} partition(s).")
    added = count - current
    factor = len(topic.partitions[0].replicas)
    if assignments is None:
        existing = [partition.replicas for partition in topic.partitions]
        placer = Placer(brokers_with_room(image), random, existing)
        made = yield from placed(image, placer, added, factor)
    elif len(assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partition(s) are to be added, but {len(assignments)} are assigned.",
        )
    else:
        made = yield from assigned(image, dict(enumerate(assignments, current)), current)
        if len(made[0].replicas) != factor:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Topic {name} has a replication factor of {factor}; "
                "each new partition must have as many replicas.",
            )
    assert len(made) == added, (name, len(made), added)
    return [PartitionsAdded(topic.topic_id, tuple(made))]


def allocate_producer_ids(image: MetadataImage) -> list[Change]:
    """The change that allocates the next block of producer ids, from ``image.next_producer_id``."""
    return [ProducerIdsAllocated(image.next_producer_id + PRODUCER_ID_BLOCK)]


def check_partition_total(count: int) -> None:
    """Raise RequestTooLarge for more partitions than one request may create."""
    if count > MAX_PARTITIONS_PER_REQUEST:
        raise RequestTooLarge(
            f"Excessively large number of partitions per request: {count}; "
            f"at most {MAX_PARTITIONS_PER_REQUEST} are allowed.",
        )


def _check_count(partitions: int) -> None:
    if partitions < 1:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions was set to an invalid non-positive value: {partitions}.",
        )


def _new_topic_id(image: MetadataImage, random: Random) -> bytes:
    """A random id (UUID version 4) that Kafka doesn't reserve and no topic has.

    As in Kafka, the id never begins with a dash in base64: a command line would read such an id as
    an option.
    """
    while True:
        raw = bytearray(random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        first_is_dash = topic_id[0] >> 2 == 62
        if (
            topic_id not in _RESERVED_IDS
            and topic_id not in image.topics_by_id
            and not first_is_dash
        ):
            return topic_id
