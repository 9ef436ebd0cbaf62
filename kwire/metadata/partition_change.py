"""The only way in which a partition's leader and in-sync replicas change; pure.

Rules:

- The leader is in the ISR and acceptable. A leader that still is stays; else the first such replica
  in the order of ``replicas`` leads; else nobody does.
- The ISR is never empty: the last replica in it stays there when its broker is lost, because only
  that replica has all records.
- The partition epoch grows with every change. The leader epoch grows with the leader, also when it
  becomes nobody; not when the ISR alone changes.

Source: PartitionChangeBuilder, ReplicationControlManager.generateLeaderAndIsrUpdates of Kafka.
"""

from collections.abc import Callable, Container

from kwire.metadata.changes import Change, PartitionsChanged
from kwire.metadata.image import MetadataImage, PartitionImage

NO_LEADER = -1


def changed(
    partition: PartitionImage, isr: tuple[int, ...], active: Container[int]
) -> PartitionImage | None:
    """The partition with this ISR and the leader that follows from it; None if nothing changes.

    ``active`` are the brokers that may lead.
    """
    isr = isr or partition.isr
    leader = _leader(partition, isr, active)
    if (leader, isr) == (partition.leader, partition.isr):
        return None
    return partition._replace(
        leader=leader,
        leader_epoch=partition.leader_epoch + (leader != partition.leader),
        isr=isr,
        partition_epoch=partition.partition_epoch + 1,
    )


def _leader(partition: PartitionImage, isr: tuple[int, ...], active: Container[int]) -> int:
    if partition.leader in isr and partition.leader in active:
        return partition.leader
    for node in partition.replicas:
        if node in isr and node in active:
            return node
    return NO_LEADER


def without_brokers(image: MetadataImage, lost: frozenset[int]) -> list[Change]:
    """The changes that take brokers out of all ISRs and leaderships."""
    active = active_brokers(image) - lost

    def look(partition: PartitionImage) -> PartitionImage | None:
        isr = partition.isr
        if lost.isdisjoint(isr):  # the leader is in the ISR
            return None
        return changed(partition, tuple([node for node in isr if node not in lost]), active)

    return _changes(image, look)


def with_broker(image: MetadataImage, node_id: int) -> list[Change]:
    """The changes that elect leaders where there is none, once this broker is unfenced."""
    active = active_brokers(image) | {node_id}

    def look(partition: PartitionImage) -> PartitionImage | None:
        if partition.leader != NO_LEADER or node_id not in partition.replicas:
            return None
        return changed(partition, partition.isr, active)

    return _changes(image, look)


def elected(
    partition: PartitionImage, active: Container[int], *, unclean: bool
) -> PartitionImage | None:
    """The partition after an election that somebody has asked for; None if nobody can be elected.

    The preferred leader is the first of the replicas. An unclean election takes the first active
    replica although it may lack records, and it alone is in sync then.
    """
    eligible = partition.replicas if unclean else partition.replicas[:1]
    isr = partition.isr
    for node in eligible:
        if node in active and (unclean or node in isr):
            return partition._replace(
                leader=node,
                leader_epoch=partition.leader_epoch + 1,
                isr=isr if node in isr else (node,),
                partition_epoch=partition.partition_epoch + 1,
            )
    return None


def active_brokers(image: MetadataImage) -> frozenset[int]:
    """The brokers that may lead."""
    return frozenset(node for node, broker in image.brokers.items() if broker.is_active)


def _changes(
    image: MetadataImage, look: Callable[[PartitionImage], PartitionImage | None]
) -> list[Change]:
    """One change for each topic with partitions for which ``look`` gives a new image."""
    changes: list[Change] = []
    for topic in image.topics_by_name.values():
        rows = [
            (index, after)
            for index, before in enumerate(topic.partitions)
            if (after := look(before)) is not None
        ]
        if rows:
            changes.append(PartitionsChanged(topic.topic_id, tuple(rows)))
    return changes
