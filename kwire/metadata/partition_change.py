"""The only way in which a partition changes: its ISR, leader, replicas and epochs; pure.

Rules:

- A caller passes the wanted partition, for example with other replicas or another ISR.
  ``changed_partition`` does all that follows from it, in this order: it completes a reassignment,
  notes eligible leader replicas (ELR), elects a leader, raises epochs.
- A reassignment is complete when all added replicas, and one of those that stay, are in the ISR.
  Then the removed replicas are dropped.
- ELR (KIP-966): while the ISR is smaller than min.insync.replicas, no record is committed. So
  replicas that leave the ISR then still have all committed records: they go to the ELR.
- ``leader_election`` decides which replica leads.
- The partition epoch grows with every change. The leader epoch grows when the leader changes (also
  to no leader), and when a replica is removed. It doesn't grow when only the ISR changes.
- The only replica of a partition stays in the ISR when its broker is lost: no other broker has the
  records or could commit any. Outside of the ISR, it is elected only if an administrator asks for
  it.

Source: PartitionChangeBuilder, PartitionReassignmentReplicas,
ReplicationControlManager.generateLeaderAndIsrUpdates of Kafka.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, PartitionsChanged
from kwire.metadata.image import (
    ConfigResource,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kwire.metadata.leader_election import (
    NO_LEADER,
    Election,
    ElectionRules,
    active_brokers,
    elect_leader,
    election_rules,
    without_nodes,
)
from kwire.metadata.replication_configs import MIN_ISR, ReplicationConfigs


class IsrProposal(NamedTuple):
    """The ISR that a leader wants: (node id, broker epoch with which it fetched) of each member.

    ``is_recovered`` says that a leader that may lack records has finished its recovery.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    is_recovered: bool


def changed_partition(
    before: PartitionImage, wanted: PartitionImage, rules: ElectionRules
) -> PartitionImage | None:
    """The new partition if ``before`` is to become ``wanted``; None if nothing changes.

    ``wanted`` differs from ``before`` in replicas, ISR, reassignment or ``is_recovering``.
    """
    after = elect_leader(before, _with_elr(before, _completed(wanted), rules), rules)
    if after == before:
        return None
    # The leader has every committed record, so it is in the ISR; replicas are named once.
    assert after.leader < 0 or after.leader in after.isr, (before, after)
    assert len(set(after.replicas)) == len(after.replicas), (before, after)
    assert set(after.isr) <= set(after.replicas), (before, after)
    assert set(after.elr) <= set(after.replicas), (before, after)
    assert set(after.isr).isdisjoint(after.elr), (before, after)
    assert {*after.adding, *after.removing} <= set(after.replicas), (before, after)
    is_new_leader = after.leader != before.leader
    is_smaller = not set(before.replicas) <= set(after.replicas)
    return after._replace(
        leader_epoch=before.leader_epoch + (is_new_leader or is_smaller),
        partition_epoch=before.partition_epoch + 1,
    )


def _completed(partition: PartitionImage) -> PartitionImage:
    """The partition after its reassignment, if that can be completed."""
    adding, removing = partition.adding, partition.removing
    if not (adding or removing):
        return partition
    isr = without_nodes(partition.isr, removing)
    if not isr or not set(adding) <= set(isr):
        return partition
    replicas = without_nodes(partition.replicas, removing)
    return partition._replace(replicas=replicas, isr=isr, adding=(), removing=())


def _with_elr(
    before: PartitionImage, after: PartitionImage, rules: ElectionRules
) -> PartitionImage:
    """The partition with the replicas in its ELR that have all committed records."""
    replicas, isr = after.replicas, after.isr
    if len(replicas) == 1:
        kept = [node for node in (*before.isr, *before.elr) if node in replicas]
        return after._replace(isr=isr or tuple(kept), elr=(), is_recovering=False)
    elr: tuple[int, ...] = ()
    if len(isr) < min(rules.min_isr, len(replicas)):
        safe = {*before.isr, *before.elr}.difference(isr)
        elr = tuple([node for node in replicas if node in safe and node not in rules.doubtful])
    return after if elr == after.elr else after._replace(elr=elr)


def proposed_isr(
    image: MetadataImage, topic_id: bytes, index: int, proposal: IsrProposal
) -> list[Change]:
    """The changes that give a partition the ISR that its leader wants; none if it has it.

    Raises KafkaError like Kafka's AlterPartition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
    FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, INELIGIBLE_REPLICA (KIP-841,
    KIP-903).
    """
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    before = topic.partitions[index]
    _check_proposal(image, before, proposal)
    wanted = before._replace(
        isr=tuple(node for node, _ in proposal.isr),
        is_recovering=before.is_recovering and not proposal.is_recovered,
    )
    rules = election_rules(ReplicationConfigs(image), topic.name, before, active_brokers(image))
    after = changed_partition(before, wanted, rules)
    return [] if after is None else [PartitionsChanged(topic_id, ((index, after),))]


def _check_proposal(image: MetadataImage, partition: PartitionImage, proposal: IsrProposal) -> None:
    """Raise KafkaError for a proposal that isn't allowed."""
    if (proposal.leader, proposal.leader_epoch) != (partition.leader, partition.leader_epoch):
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if proposal.partition_epoch != partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
    nodes = [node for node, _ in proposal.isr]
    is_set_of_replicas = len(set(nodes)) == len(nodes) and set(nodes) <= set(partition.replicas)
    recovers = partition.is_recovering and not proposal.is_recovered
    if not is_set_of_replicas or proposal.leader not in nodes or (recovers and len(nodes) > 1):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    for node, epoch in proposal.isr:
        broker = image.brokers.get(node)
        if broker is None or not broker.is_active or broker.epoch != epoch:
            raise KafkaError(
                ErrorCode.INELIGIBLE_REPLICA,
                f"replica {node} with broker epoch {epoch} is fenced, shuts down or has restarted",
            )


def without_brokers(
    image: MetadataImage, lost: frozenset[int], *, are_doubtful: bool = False
) -> list[Change]:
    """The changes that take brokers out of all ISRs and leaderships.

    If ``are_doubtful``, their replicas aren't eligible either: they may lack records.
    """
    active = active_brokers(image) - lost
    doubtful = lost if are_doubtful else frozenset[int]()

    def change_of(partition: PartitionImage, rules: ElectionRules) -> PartitionImage | None:
        if lost.isdisjoint(partition.isr) and doubtful.isdisjoint(partition.elr):
            return None  # the leader is in the ISR
        isr = without_nodes(partition.isr, lost)
        return changed_partition(
            partition, partition._replace(isr=isr), rules._replace(doubtful=doubtful)
        )

    return changes_of_partitions(image, active, change_of)


def with_broker(image: MetadataImage, node_id: int) -> list[Change]:
    """The changes that elect leaders of partitions without one, once this broker is unfenced."""
    active = active_brokers(image) | {node_id}

    def change_of(partition: PartitionImage, rules: ElectionRules) -> PartitionImage | None:
        if partition.leader != NO_LEADER or node_id not in partition.replicas:
            return None
        return changed_partition(partition, partition, rules)

    return changes_of_partitions(image, active, change_of)


def without_replicas(
    image: MetadataImage,
    node_id: int,
    is_lost: Callable[[TopicImage, int], bool],
    *,
    are_whole: bool = False,
) -> list[Change]:
    """The changes that take a broker's lost replicas out of the ISR, ELR and leadership.

    Partitions without another replica that has all records don't change: they wait for this
    replica, unless an administrator gives it up. If ``are_whole``, the replicas have their records
    and only can't take new ones: then they may stay in the ELR, and only partitions with other
    replicas in the ISR change.
    """
    doubtful = () if are_whole else (node_id,)
    changes: list[Change] = []
    configs, active = ReplicationConfigs(image), active_brokers(image)
    for topic in image.topics_by_name.values():
        rows = []
        for index, before in enumerate(topic.partitions):
            counted = before.isr if are_whole else (*before.isr, *before.elr)
            others = without_nodes(counted, (node_id,))
            if not others or node_id not in counted or not is_lost(topic, index):
                continue
            rules = election_rules(configs, topic.name, before, active)._replace(doubtful=doubtful)
            wanted = before._replace(isr=without_nodes(before.isr, (node_id,)))
            after = changed_partition(before, wanted, rules)
            if after is not None:
                rows.append((index, after))
        if rows:
            changes.append(PartitionsChanged(topic.topic_id, tuple(rows)))
    return changes


def with_configs(
    image: MetadataImage, resource: ConfigResource, wanted: Mapping[str, str]
) -> list[Change]:
    """The changes if a resource gets these configs: a lower min ISR makes replicas ineligible.

    The leader may soon commit records that such replicas lack. A partition without a leader doesn't
    change, because no records are committed.
    """
    kind, name = resource
    concerns = kind in (ConfigResourceType.TOPIC, ConfigResourceType.BROKER)
    if not concerns or wanted.get(MIN_ISR) == image.config(kind, name).get(MIN_ISR):
        return []
    topics = image.topics_by_name
    before, after = ReplicationConfigs(image), ReplicationConfigs(image, {resource: wanted})
    changes: list[Change] = []
    for topic in [topics[name]] if kind == ConfigResourceType.TOPIC else topics.values():
        if after.min_isr(topic.name) >= before.min_isr(topic.name):
            continue
        rows = tuple(
            (index, one._replace(elr=(), partition_epoch=one.partition_epoch + 1))
            for index, one in enumerate(topic.partitions)
            if one.elr and one.leader != NO_LEADER
        )
        if rows:
            changes.append(PartitionsChanged(topic.topic_id, rows))
    return changes


def with_elected_leader(
    partition: PartitionImage, rules: ElectionRules, *, unclean: bool
) -> PartitionImage | None:
    """The partition after an election that a client has asked for; None if none is possible.

    The preferred leader is the first of the replicas. An unclean election takes an active replica
    although it may lack records. Then only this replica is in sync.
    """
    election = Election.UNCLEAN if unclean else Election.PREFERRED
    return changed_partition(partition, partition, rules._replace(election=election))


def changes_of_partitions(
    image: MetadataImage,
    active: Container[int],
    change_of: Callable[[PartitionImage, ElectionRules], PartitionImage | None],
    topics: Iterable[TopicImage] | None = None,
) -> list[Change]:
    """One change for each topic with partitions for which ``change_of`` gives a new image."""
    changes: list[Change] = []
    configs = ReplicationConfigs(image)
    for topic in image.topics_by_name.values() if topics is None else topics:
        single = ElectionRules(active)  # configs don't matter for the only replica
        several: ElectionRules | None = None
        rows = []
        for index, before in enumerate(topic.partitions):
            rules = single
            if len(before.replicas) > 1:
                several = several or election_rules(configs, topic.name, before, active)
                rules = several
            after = change_of(before, rules)
            if after is not None:
                # A decision that was made before must stay recognizable as old.
                assert after.partition_epoch > before.partition_epoch, (topic.name, index)
                rows.append((index, after))
        if rows:
            changes.append(PartitionsChanged(topic.topic_id, tuple(rows)))
    return changes
