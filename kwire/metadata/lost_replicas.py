"""Decides the changes for replicas that a starting broker has lost, or has found again; pure.

Rules:

- A replica in the ISR that isn't on the broker's disks is lost, and leaves the ISR. If it was the
  only replica, the ISR becomes empty and no broker leads the partition, because no broker has the
  records. With an empty log in its place, the partition would look as if it had never had records.
- A partition that never had a leader has no records, so nothing is lost. The same holds if this
  broker was chosen as the first leader and died before it created the log, and if all data
  directories of that time still exist.
- A replica in a directory that the broker had at its last registration is the right one. A replica
  in another directory may be older, because its disk was missing for some time. It is the right one
  only if its log knows the last leader epoch of the partition.
- An election onto an empty disk begins a partition anew. If the broker dies before it has made the
  log, its replica looks lost once more, and has to be elected once more. No record is lost by that.
- If a lost replica is found and is the right one, it joins the ISR again.
- The rules above are for partitions with one replica. If a partition has several replicas, a
  replica outside of the last registration's directories is lost, too: it may not be elected, and
  fetches all records again. While its directory is offline, it may be elected only if no other
  replica can be elected.
- A power cut of all brokers may come before the last leader of a new partition has flushed anything
  of its log, not even the directory. So the leader has flushed no acknowledged record, and any
  other replica may lead. Apache Kafka lets the last leader lead with an empty log, whether it has
  lost records or not.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kwire.metadata.changes import Change, PartitionsChanged
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage
from kwire.metadata.leader_election import NO_LEADER, ElectionRules, active_brokers, election_rules
from kwire.metadata.partition_change import changed_partition
from kwire.metadata.replication_configs import ReplicationConfigs


class Replica(NamedTuple):
    """A replica on a disk: the id of its directory, and the newest leader epoch in its log."""

    directory: str
    latest_epoch: int


OFFLINE = Replica("", -1)
"""A replica that may be in an offline directory, so that it isn't known whether it is lost."""

NEVER_MADE = Replica("", -2)
"""A replica that isn't on the disks, and for which no directory has a high watermark."""

Held: TypeAlias = Callable[[str, int, bytes], Replica | None]
"""Returns the replica of a partition by topic, number and topic id.

None or NEVER_MADE if the disks have none.
"""


def lost_or_found(
    image: MetadataImage, before: BrokerImage | None, broker: BrokerImage, held: Held
) -> list[Change]:
    """The changes of ISRs for the replicas that a broker has.

    In ``image`` the broker leads no partition. ``before`` is its former registration, None for a
    new broker.
    """
    directories = frozenset(before.directories if before is not None else ())
    has_same = before is not None and directories <= frozenset(broker.directories)
    configs, active = ReplicationConfigs(image), active_brokers(image)
    changes: list[Change] = []
    for topic in image.topics_by_name.values():
        rows = []
        for index, partition in enumerate(topic.partitions):
            if broker.node_id not in partition.replicas:
                continue
            assert partition.leader != broker.node_id, (topic.name, index, partition)
            replica = held(topic.name, index, topic.topic_id)
            if replica is NEVER_MADE and not (directories and has_same):
                replica = None  # these directories can't show whether it is lost
            if len(partition.replicas) == 1:
                kept = None if replica is NEVER_MADE else replica
                after = _only_replica(partition, broker.node_id, kept, directories, has_same)
            else:
                rules = election_rules(configs, topic.name, partition, active)
                after = _one_of_several(partition, broker.node_id, replica, directories, rules)
            if after is not None:
                assert after.partition_epoch > partition.partition_epoch, (topic.name, index)
                rows.append((index, after))
        if rows:
            changes.append(PartitionsChanged(topic.topic_id, tuple(rows)))
    return changes


def _one_of_several(
    partition: PartitionImage,
    node_id: int,
    replica: Replica | None,
    directories: frozenset[str],
    rules: ElectionRules,
) -> PartitionImage | None:
    """The partition after the start of a broker outside of its ISR; None if nothing changes."""
    if replica is OFFLINE:
        if partition.isr or partition.elr != (node_id,):
            return changed_partition(partition, partition, rules._replace(doubtful=(node_id,)))
        return None
    if replica is not None and (not directories or replica.directory in directories):
        return None
    last = tuple(node for node in partition.last_known_elr if node != node_id)
    if replica is NEVER_MADE and partition.last_known_elr == (node_id,) and _is_new(partition):
        last = (_next_to(partition, node_id, rules),)
    without = partition._replace(last_known_elr=last)
    return changed_partition(partition, without, rules._replace(doubtful=(node_id,)))


def _is_new(partition: PartitionImage) -> bool:
    """Whether nothing has changed since the topic's creation except that its replicas failed.

    Each failure raises the leader epoch once. If the epoch is larger, the last leader may have come
    by a reassignment: then it had old records, which other replicas still have.
    """
    is_moving = partition.adding or partition.removing
    return not is_moving and partition.leader_epoch <= len(partition.replicas)


def _next_to(partition: PartitionImage, node_id: int, rules: ElectionRules) -> int:
    """The replica that may lead in place of a lost one, if possible one that can lead at once."""
    place = partition.replicas.index(node_id)
    others = partition.replicas[place + 1 :] + partition.replicas[:place]
    assert others, partition  # an only replica is judged by ``_only_replica``
    return next((node for node in others if node in rules.active), others[0])


def _only_replica(
    partition: PartitionImage,
    node_id: int,
    replica: Replica | None,
    directories: frozenset[str],
    has_same: bool,
) -> PartitionImage | None:
    """The partition after the start of its only replica's broker; None if nothing changes."""
    if replica is OFFLINE or (replica is None and _never_begun(partition, has_same)):
        return None
    isr = _isr(partition, node_id, replica, directories)
    if isr == partition.isr:
        return None
    return partition._replace(isr=isr, partition_epoch=partition.partition_epoch + 1)


def _never_begun(partition: PartitionImage, has_same: bool) -> bool:
    """Whether a partition without a leader certainly has no records."""
    return partition.leader_epoch == 0 or (partition.leader_epoch == 1 and has_same)


def _isr(
    partition: PartitionImage, node_id: int, replica: Replica | None, directories: frozenset[str]
) -> tuple[int, ...]:
    """The ISR after the start of this broker; ``replica`` is None if the broker has lost it."""
    isr = partition.isr
    is_newest = replica is not None and replica.latest_epoch >= partition.leader_epoch - 1
    if node_id not in isr:
        return isr if isr or not is_newest else (node_id,)
    is_known = replica is not None and (not directories or replica.directory in directories)
    return isr if is_known or is_newest else tuple(node for node in isr if node != node_id)


def lost_partitions(image: MetadataImage, node_id: int) -> list[str]:
    """The partitions that have lost their records, here on the broker of their only replica."""
    return [
        f"{topic.name}-{index}"
        for topic in image.topics_by_name.values()
        for index, partition in enumerate(topic.partitions)
        if not partition.isr and partition.replicas == (node_id,)
    ]


def lost_with_all_replicas(image: MetadataImage, node_id: int) -> list[str]:
    """The partitions with several replicas, one of them here, that no replica may lead any more.

    All replicas that had all records are lost. Others may be left, which lack records. Partitions
    with unclean elections are left out, because one of those leads by itself.
    """
    configs = ReplicationConfigs(image)
    return [
        f"{topic.name}-{index}"
        for topic in image.topics_by_name.values()
        for index, partition in enumerate(topic.partitions)
        if _has_no_candidate(partition)
        and node_id in partition.replicas
        and not configs.allows_unclean(topic.name)
    ]


def _has_no_candidate(partition: PartitionImage) -> bool:
    """Whether a partition has several replicas, and none that could become its leader."""
    candidates = partition.isr or partition.elr or partition.last_known_elr
    return partition.leader == NO_LEADER and not candidates and len(partition.replicas) > 1
