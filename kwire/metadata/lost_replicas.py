"""Replicas that a broker has lost or found again when it starts; pure.

Rules:

- A replica in the ISR that isn't on the broker's disks is lost, and leaves the ISR. If it was the
  only one, the ISR is empty: nobody has the records, so nobody leads the partition. An empty log in
  its place would look as if the records had never been there.
- A partition that was never led has no records. Nor has one that this broker was to lead first, if
  the broker died before it made the log: then all directories of that time are still there.
- A replica on a directory that the broker had when it registered last is the right one. On another
  directory, it may be older: the disk was away. Then it is the right one only if its log knows the
  epoch in which the partition was led last.
- A lost replica that is the right one is found: it is in the ISR again.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kwire.metadata.changes import Change, PartitionsChanged
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage


class Replica(NamedTuple):
    """A replica on a disk: the id of its directory, and the newest leader epoch in its log."""

    directory: str
    latest_epoch: int


OFFLINE = Replica("", -1)
"""A replica that may be on a directory that is offline: nobody knows yet whether it is lost."""

Held: TypeAlias = Callable[[str, int, bytes], Replica | None]
"""Gives the replica of a partition by topic, number and topic id; None if the disks have none."""


def lost_or_found(
    image: MetadataImage, before: BrokerImage | None, broker: BrokerImage, held: Held
) -> list[Change]:
    """The changes of ISRs that follow from what a broker has.

    In ``image`` it leads nothing. ``before`` is its registration until now, None for a new broker.
    """
    directories = frozenset(before.directories if before is not None else ())
    has_same = directories <= frozenset(broker.directories)
    changes: list[Change] = []
    for topic in image.topics_by_name.values():
        rows = []
        for index, partition in enumerate(topic.partitions):
            if broker.node_id not in partition.replicas:
                continue
            replica = held(topic.name, index, topic.topic_id)
            if replica is OFFLINE or (replica is None and _never_begun(partition, has_same)):
                continue
            isr = _isr(partition, broker.node_id, replica, directories)
            if isr != partition.isr:
                epoch = partition.partition_epoch + 1
                rows.append((index, partition._replace(isr=isr, partition_epoch=epoch)))
        if rows:
            changes.append(PartitionsChanged(topic.topic_id, tuple(rows)))
    return changes


def _never_begun(partition: PartitionImage, has_same: bool) -> bool:
    """Whether a partition that nobody leads has no records, for certain."""
    return partition.leader_epoch == 0 or (partition.leader_epoch == 1 and has_same)


def _isr(
    partition: PartitionImage, node_id: int, replica: Replica | None, directories: frozenset[str]
) -> tuple[int, ...]:
    """The ISR, now that this broker has or hasn't this replica."""
    isr = partition.isr
    is_newest = replica is not None and replica.latest_epoch >= partition.leader_epoch - 1
    if node_id not in isr:
        return isr if isr or not is_newest else (node_id,)
    is_known = replica is not None and (not directories or replica.directory in directories)
    return isr if is_known or is_newest else tuple(node for node in isr if node != node_id)


def lost_partitions(image: MetadataImage, node_id: int) -> list[str]:
    """The partitions whose last replica this broker has lost."""
    return [
        f"{topic.name}-{index}"
        for topic in image.topics_by_name.values()
        for index, partition in enumerate(topic.partitions)
        if not partition.isr and node_id in partition.replicas
    ]
