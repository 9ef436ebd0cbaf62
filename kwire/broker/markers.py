"""Writes the markers that end transactions into this broker's partitions.

Rules: a marker with an old producer epoch, or of a coordinator that has been replaced, is refused.
A marker counts when it is replicated, because another leader may not have it before. For a
partition of ``__consumer_offsets``, the group coordinator also processes the marker. In a cluster,
``remote_markers`` sends the same markers to the leaders of the other partitions.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kwire.broker.flusher import Flush
from kwire.broker.groups import Groups
from kwire.broker.partition import Partition
from kwire.broker.view import BrokerView
from kwire.log.validation import AppendOrigin
from kwire.metadata.image import OFFSETS_TOPIC
from kwire.record.control import ControlType, end_transaction_marker

if TYPE_CHECKING:
    from kwire.broker.delayed_response import Replication
    from kwire.broker.peers import Peers
    from kwire.broker.pending_verification import PendingVerification


class MarkedBroker(BrokerView, Protocol):
    """A broker, for code that writes markers into its partitions."""

    @property
    def groups(self) -> Groups:
        """The groups of the broker."""
        ...

    @property
    def peers(self) -> "Peers":
        """The other brokers."""
        ...

    verified: dict[tuple[str, int, int], "PendingVerification"]
    """Questions about writes, by topic, partition and producer id."""


class EndMarker(NamedTuple):
    """The end of a transaction; ``transaction_version`` says how the partition checks the epoch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int

    def __str__(self) -> str:
        ending = "commit" if self.committed else "abort"
        return f"the {ending} of producer {self.producer_id}, epoch {self.producer_epoch}"


def write_marker(
    broker: MarkedBroker, marker: EndMarker, topic: str, index: int
) -> "Flush | Replication | None":
    """Write a marker into a partition; return what to wait for until it counts, None if nothing.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH,
    TRANSACTION_COORDINATOR_FENCED, COORDINATOR_LOAD_IN_PROGRESS, and the errors of
    ``Partition.append``.
    """
    partition = broker.partition(topic, index)
    partition.log.producers.check_marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    if broker.verified:  # questions about writes belong to the transaction that ends
        broker.verified.pop((topic, index, marker.producer_id), None)
    now_ms = broker.now_ms()
    batch = end_transaction_marker(
        ControlType.COMMIT if marker.committed else ControlType.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=now_ms,
    )
    if topic == OFFSETS_TOPIC:
        broker.groups.end_transaction(index, batch, marker.producer_id, committed=marker.committed)
    else:
        partition.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
    if partition.__class__ is not Partition:  # it has replicas
        from kwire.broker.delayed_response import Replication

        return Replication(partition, _is_here(broker), _timeout_s(broker))
    return partition.flush


def _is_here(broker: MarkedBroker) -> Callable[[Partition], bool]:
    return lambda led: broker.partition_if_served(led.topic, led.index) is led


def _timeout_s(broker: MarkedBroker) -> float:
    return broker.integer("offsets.commit.timeout.ms") / 1000
