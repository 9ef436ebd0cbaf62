"""Decisions about brokers that come and go: (image, broker) → changes; pure.

Rules:

- A broker registers fenced. The same commit takes the broker's earlier process out of ISRs and
  leaderships, so a leader's restart always makes a new leader epoch.
- The epoch of a registration is the revision of its commit. The store compares the revision, so the
  epoch is known when the commit is decided.
- A broker that comes back may lack replicas: its disk was wiped or swapped. The commit that
  registers the broker removes these replicas from the ISRs (``lost_replicas``), so that it never
  leads with an empty log.
- After a power cut, a broker's replicas may lack records that they had. The commit that registers
  it takes them out of the eligible leader replicas, too (KIP-966). The same holds for a broker that
  was unregistered: nothing tells whether the process with its node id has the disks of that time.
- A decision of a process is refused if another process is registered by now: the node id has
  another incarnation.

Source: ClusterControlManager, ReplicationControlManager of Kafka.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ControllerElected,
    apply,
)
from kwire.metadata.features import check_features
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.lost_replicas import Held, lost_or_found
from kwire.metadata.partition_change import with_broker, without_brokers


def register(
    image: MetadataImage,
    broker: BrokerImage,
    held: Held | None = None,
    *,
    is_unclean: bool = False,
) -> list[Change]:
    """The changes that register a broker, fenced; ``held`` gives the replicas of a new process.

    ``is_unclean`` says that its replicas may lack records that they had before it stopped. An
    unregistered broker counts as unclean. Raises KafkaError (UNSUPPORTED_VERSION) if the broker
    doesn't support a finalised feature level.
    """
    check_features(image, broker)
    node_id = broker.node_id
    registered = broker._replace(epoch=image.revision + 1, is_fenced=True, is_shutting_down=False)
    changes: list[Change] = [BrokerRegistered(registered)]
    are_doubtful = is_unclean or node_id not in image.brokers
    changes += without_brokers(image, frozenset({node_id}), are_doubtful=are_doubtful)
    if held is not None:
        registering = apply(image, changes, image.revision)
        changes += lost_or_found(registering, image.brokers.get(node_id), broker, held)
    return changes


def unfence(image: MetadataImage, node_id: int, incarnation: str) -> list[Change]:
    """The changes that let a broker lead, also partitions without a leader; none if it may already.

    A broker that is shutting down leads no partition, even if it was fenced meanwhile.
    """
    broker = registered_as(image, node_id, incarnation)
    if not broker.is_fenced:
        return []
    led = [] if broker.is_shutting_down else with_broker(image, node_id)
    return [BrokerChanged(node_id, False, broker.is_shutting_down), *led]


def shut_down(image: MetadataImage, node_id: int, incarnation: str) -> list[Change]:
    """The changes that move leaderships away from a broker that will stop."""
    broker = registered_as(image, node_id, incarnation)
    if broker.is_shutting_down:
        return []
    lost = without_brokers(image, frozenset({node_id}))
    return [BrokerChanged(node_id, broker.is_fenced, True), *lost]


def fence(image: MetadataImage, nodes: frozenset[int]) -> list[Change]:
    """The changes that fence silent brokers; none for brokers that are already fenced."""
    lost = frozenset(
        node_id
        for node_id in nodes
        if node_id in image.brokers and not image.brokers[node_id].is_fenced
    )
    if not lost:
        return []
    fenced = [
        BrokerChanged(node_id, True, image.brokers[node_id].is_shutting_down)
        for node_id in sorted(lost)
    ]
    return [*fenced, *without_brokers(image, lost)]


def unregister(image: MetadataImage, node_id: int) -> list[Change]:
    """The changes that remove a broker; BROKER_ID_NOT_REGISTERED if there is none."""
    if node_id not in image.brokers:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered"
        )
    return [*without_brokers(image, frozenset({node_id})), BrokerUnregistered(node_id)]


def elect_controller(image: MetadataImage, node_id: int) -> list[Change]:
    """The change that names the controller to all brokers."""
    return [ControllerElected(node_id, image.controller_epoch + 1)]


def registered_as(image: MetadataImage, node_id: int, incarnation: str) -> BrokerImage:
    """The registration of this process; KafkaError (STALE_BROKER_EPOCH) if another has it."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.incarnation != incarnation:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"another process has registered as broker {node_id}"
        )
    return broker
