"""The content of a cluster at one revision: brokers, topics, partitions, configs.

Rules:

- An image never changes. ``kwire.metadata.changes.apply`` makes the next one.
- Topic ids are 16 bytes and unique for all time: a topic that is deleted and created again gets
  another id.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from kwire.config.internal_topics import OFFSETS_TOPIC as OFFSETS_TOPIC
from kwire.config.internal_topics import SHARE_STATE_TOPIC as SHARE_STATE_TOPIC
from kwire.config.internal_topics import TRANSACTIONS_TOPIC as TRANSACTIONS_TOPIC
from kwire.metadata.acls import NO_ACLS, Acls
from kwire.metadata.quotas import ClientQuotas
from kwire.metadata.scram import Credentials
from kwire.metadata.tokens import Tokens

EMPTY: Mapping[str, str] = MappingProxyType({})

AMONG_WORKERS = "worker"
"""The endpoint at which the workers of one machine reach each other: the bound address, which may
differ from the advertised one. No listener has this name, because names of listeners are upper
case."""


INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""The topics that hold brokers' state; clients may not write to them."""


class ConfigResourceType(IntEnum):
    """The kinds of resources that have dynamic configs; Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


ConfigResource: TypeAlias = tuple[ConfigResourceType, str]
"""A resource by type and name; the broker named ``""`` stands for all brokers."""


class PartitionImage(NamedTuple):
    """A partition's replicas by node id, its leader (-1: none) and its epochs.

    During a reassignment, ``adding`` and ``removing`` are the ``replicas`` that are added and
    removed. ``elr`` are the eligible leader replicas (KIP-966): they aren't in the ISR, but have
    all records below the high watermark. ``last_known_elr`` is the last leader of a partition that
    nobody leads. ``is_recovering`` says that the leader was elected uncleanly and hasn't committed
    an ISR since.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    is_recovering: bool = False


class TopicImage(NamedTuple):
    """A topic; its partitions are numbered by their place.

    ``hashed_partitions`` is the number of partitions among which a coordinators' topic distributes
    groups or transactional ids: the number with which the topic was created. Partitions that are
    added later don't count. Otherwise the broker would look for existing groups in wrong
    partitions.
    """

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]
    hashed_partitions: int


class BrokerImage(NamedTuple):
    """A registered broker, and the endpoints of its listeners: (name, host, port).

    A worker has one more endpoint (``AMONG_WORKERS``), which clients don't get.

    ``incarnation`` names its process forever, and ``epoch`` is the revision that registered it.
    Both are unset for a single broker. A fenced broker leads nothing, and no client sees it.
    ``features`` are its supported features: (name, lowest, highest level). ``directories`` are the
    ids of its data directories. ``log_dirs`` are the entries of its ``log.dirs``, without those
    that were offline when it registered. ``is_cordoned`` says that its own file cordons all of
    these; see ``cordons`` for what counts more.
    """

    node_id: int
    rack: str | None
    endpoints: tuple[tuple[str, str, int], ...]
    incarnation: str = ""
    epoch: int = -1
    is_fenced: bool = False
    is_shutting_down: bool = False
    features: tuple[tuple[str, int, int], ...] = ()
    directories: tuple[str, ...] = ()
    is_cordoned: bool = False
    log_dirs: tuple[str, ...] = ()

    @property
    def told_endpoints(self) -> tuple[tuple[str, str, int], ...]:
        """The endpoints that clients get."""
        return tuple(one for one in self.endpoints if one[0] != AMONG_WORKERS)

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead partitions."""
        return not (self.is_fenced or self.is_shutting_down)


class MetadataImage(NamedTuple):
    """All metadata of the cluster at one revision.

    ``next_producer_id`` is the first producer id that no block contains. ``features`` are the
    finalised levels. ``kafka_metadata_end_offset`` is the end offset of Apache Kafka's metadata log
    when kwire took it over, or -1. ``controller_id`` is the broker that was elected last, or -1.
    """

    revision: int = 0
    cluster_id: str = ""
    next_producer_id: int = 0
    brokers: Mapping[int, BrokerImage] = MappingProxyType({})
    topics_by_name: Mapping[str, TopicImage] = MappingProxyType({})
    topics_by_id: Mapping[bytes, TopicImage] = MappingProxyType({})
    configs: Mapping[ConfigResource, Mapping[str, str]] = MappingProxyType({})
    features: Mapping[str, int] = MappingProxyType({})
    kafka_metadata_end_offset: int = -1
    controller_id: int = -1
    controller_epoch: int = 0
    acls: Acls = NO_ACLS
    scram_credentials: Credentials = MappingProxyType({})
    client_quotas: ClientQuotas = MappingProxyType({})
    tokens: Tokens = MappingProxyType({})

    def config(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]:
        """The dynamic configs of one resource, as text; empty for a resource without any."""
        return self.configs.get((resource_type, name), EMPTY)

    def feature_level(self, name: str) -> int:
        """The finalised level of a feature; 0 for a feature without a level."""
        return self.features.get(name, 0)

    def is_active(self, node_id: int) -> bool:
        """Whether a broker is registered and may lead partitions."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.is_active

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """One partition; None if the topic or the partition doesn't exist."""
        image = self.topics_by_name.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            return None
        return image.partitions[index]


def unreachable_brokers(
    image: MetadataImage,
    before: MetadataImage | None = None,
    known: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """The brokers whose replicas are offline: those that are fenced, or have left the cluster.

    ``known`` are the unreachable brokers of the image ``before``. All partitions are searched for
    brokers that left only if the registered brokers have changed.
    """
    brokers = image.brokers
    fenced = frozenset(node for node, broker in brokers.items() if broker.is_fenced)
    if before is not None and before.brokers.keys() == brokers.keys():
        return fenced | known.difference(brokers)
    left = {
        node
        for topic in image.topics_by_name.values()
        for partition in topic.partitions
        for node in partition.replicas
        if node not in brokers
    }
    return fenced | left
