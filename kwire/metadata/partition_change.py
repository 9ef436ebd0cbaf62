"""The only way in which a partition changes: its ISR, leader, replicas and epochs; pure.

Rules:

- A caller passes the wanted partition, for example with other replicas or another ISR. ``changed``
  does all that follows from it, in this order: it completes a reassignment, notes eligible leader
  replicas (ELR), elects a leader, raises epochs.
- A reassignment is complete when all added replicas, and one of those that stay, are in the ISR.
  Then the removed replicas are dropped.
- ELR (KIP-966): while the ISR is smaller than min.insync.replicas, no record is committed. So
  replicas that leave the ISR then still have all committed records: they go to the ELR.
- A leader that may lead stays the leader. Otherwise the first of the replicas in the ISR leads.
  With an empty ISR, one of the ELR leads. If the ELR is empty, too, the last leader leads, although
  it may lack records. If that isn't possible, the partition has no leader, or with an unclean
  election any active replica leads.
- A leader from outside the ISR becomes the only member of the ISR. If it may lack records, the
  partition ``is_recovering`` until the leader reports that it has recovered.
- The partition epoch grows with every change. The leader epoch grows when the leader changes (also
  to no leader), and when a replica is removed. It doesn't grow when only the ISR changes.
- The only replica of a partition stays in the ISR when its broker is lost: no other broker has the
  records or could commit any. Outside of the ISR, it is elected only if an administrator asks for
  it.

Source: PartitionChangeBuilder, PartitionReassignmentReplicas,
ReplicationControlManager.generateLeaderAndIsrUpdates of Kafka.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from enum import Enum
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
from kwire.metadata.topic_terms import MIN_ISR, TopicTerms

NO_LEADER = -1


class Election(Enum):
    """The replicas that may be elected: those with all records, the preferred one first, or any."""

    ONLINE = 0
    PREFERRED = 1
    UNCLEAN = 2


class Terms(NamedTuple):
    """The terms of a change.

    ``active`` are the brokers that may lead. ``doubtful`` are the brokers whose replicas may have
    lost records in a power cut.
    """

    active: Container[int]
    min_isr: int = 1
    election: Election = Election.ONLINE
    doubtful: Container[int] = ()


class IsrProposal(NamedTuple):
    """The ISR that a leader wants: (node id, broker epoch with which it fetched) of each member.

    ``is_recovered`` says that a leader that may lack records has finished its recovery.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    is_recovered: bool


def changed(before: PartitionImage, wanted: PartitionImage, terms: Terms) -> PartitionImage | None:
    """The new partition if ``before`` is to become ``wanted``; None if nothing changes.

    ``wanted`` differs from ``before`` in replicas, ISR, reassignment or ``is_recovering``.
    """
    after = _elected(before, _with_elr(before, _completed(wanted), terms), terms)
    if after == before:
        return None
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
    isr = _without(partition.isr, removing)
    if not isr or not set(adding) <= set(isr):
        return partition
    replicas = _without(partition.replicas, removing)
    return partition._replace(replicas=replicas, isr=isr, adding=(), removing=())


def _with_elr(before: PartitionImage, after: PartitionImage, terms: Terms) -> PartitionImage:
    """The partition with the replicas in its ELR that have all committed records."""
    replicas, isr = after.replicas, after.isr
    if len(replicas) == 1:
        kept = [node for node in (*before.isr, *before.elr) if node in replicas]
        return after._replace(isr=isr or tuple(kept), elr=(), is_recovering=False)
    elr: tuple[int, ...] = ()
    if len(isr) < min(terms.min_isr, len(replicas)):
        safe = {*before.isr, *before.elr}.difference(isr)
        elr = tuple([node for node in replicas if node in safe and node not in terms.doubtful])
    return after if elr == after.elr else after._replace(elr=elr)


def _elected(before: PartitionImage, after: PartitionImage, terms: Terms) -> PartitionImage:
    """The partition after the election of its leader."""
    active = terms.active
    eligible = [node for node in after.replicas if node in (after.isr or after.elr)]
    leader = _clean_leader(after, [node for node in eligible if node in active], terms.election)
    if leader is not None:
        if leader in after.isr:
            return after._replace(leader=leader, last_known_elr=())
        elr = _without(after.elr, (leader,)) if terms.min_isr > 1 else ()
        return after._replace(leader=leader, isr=(leader,), elr=elr, last_known_elr=())
    leader = _unclean_leader(after, terms)
    if leader is not None:
        return after._replace(
            leader=leader,
            isr=(leader,),
            elr=(),
            last_known_elr=(),
            is_recovering=len(after.replicas) > 1,
        )
    last = after.last_known_elr
    if before.leader in after.replicas and not after.isr:
        last = (before.leader,)
    last = tuple(node for node in last if node in after.replicas)
    return after._replace(leader=NO_LEADER, last_known_elr=last)


def _clean_leader(partition: PartitionImage, eligible: list[int], election: Election) -> int | None:
    """The leader among the active replicas with all records; None if there is none."""
    preferred = partition.replicas[0]
    if election is Election.PREFERRED and preferred in eligible:
        return preferred
    if partition.leader in eligible:
        return partition.leader
    return eligible[0] if eligible else None


def _unclean_leader(partition: PartitionImage, terms: Terms) -> int | None:
    """The replica that leads although it may lack records; None if no replica may."""
    last = partition.last_known_elr
    if not partition.isr and not partition.elr and len(last) == 1 and last[0] in terms.active:
        return last[0]
    if terms.election is not Election.UNCLEAN:
        return None
    return next((node for node in partition.replicas if node in terms.active), None)


def _without(nodes: Iterable[int], lost: Container[int]) -> tuple[int, ...]:
    return tuple([node for node in nodes if node not in lost])


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
    terms = terms_of(TopicTerms(image), topic.name, before, active_brokers(image))
    after = changed(before, wanted, terms)
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

    def look(partition: PartitionImage, terms: Terms) -> PartitionImage | None:
        if lost.isdisjoint(partition.isr) and doubtful.isdisjoint(partition.elr):
            return None  # the leader is in the ISR
        isr = _without(partition.isr, lost)
        return changed(partition, partition._replace(isr=isr), terms._replace(doubtful=doubtful))

    return changes_of_partitions(image, active, look)


def with_broker(image: MetadataImage, node_id: int) -> list[Change]:
    """The changes that elect leaders of partitions without one, once this broker is unfenced."""
    active = active_brokers(image) | {node_id}

    def look(partition: PartitionImage, terms: Terms) -> PartitionImage | None:
        if partition.leader != NO_LEADER or node_id not in partition.replicas:
            return None
        return changed(partition, partition, terms)

    return changes_of_partitions(image, active, look)


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
    configs, active = TopicTerms(image), active_brokers(image)
    for topic in image.topics_by_name.values():
        rows = []
        for index, before in enumerate(topic.partitions):
            counted = before.isr if are_whole else (*before.isr, *before.elr)
            others = _without(counted, (node_id,))
            if not others or node_id not in counted or not is_lost(topic, index):
                continue
            terms = terms_of(configs, topic.name, before, active)._replace(doubtful=doubtful)
            wanted = before._replace(isr=_without(before.isr, (node_id,)))
            after = changed(before, wanted, terms)
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
    before, after = TopicTerms(image), TopicTerms(image, {resource: wanted})
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


def active_brokers(image: MetadataImage) -> frozenset[int]:
    """The brokers that may lead."""
    return frozenset(node for node, broker in image.brokers.items() if broker.is_active)


def elected(partition: PartitionImage, terms: Terms, *, unclean: bool) -> PartitionImage | None:
    """The partition after an election that a client has asked for; None if none is possible.

    The preferred leader is the first of the replicas. An unclean election takes an active replica
    although it may lack records. Then only this replica is in sync.
    """
    election = Election.UNCLEAN if unclean else Election.PREFERRED
    return changed(partition, partition, terms._replace(election=election))


def terms_of(
    configs: TopicTerms, topic: str, partition: PartitionImage, active: Container[int]
) -> Terms:
    """The terms that a topic's configs set. No config lets an only replica lead uncleanly."""
    allows = len(partition.replicas) > 1 and configs.allows_unclean(topic)
    election = Election.UNCLEAN if allows else Election.ONLINE
    return Terms(active, configs.min_isr(topic), election)


def changes_of_partitions(
    image: MetadataImage,
    active: Container[int],
    look: Callable[[PartitionImage, Terms], PartitionImage | None],
    topics: Iterable[TopicImage] | None = None,
) -> list[Change]:
    """One change for each topic with partitions for which ``look`` gives a new image."""
    changes: list[Change] = []
    configs = TopicTerms(image)
    for topic in image.topics_by_name.values() if topics is None else topics:
        single = Terms(active)  # configs don't matter for the only replica
        several: Terms | None = None
        rows = []
        for index, before in enumerate(topic.partitions):
            terms = single
            if len(before.replicas) > 1:
                several = several or terms_of(configs, topic.name, before, active)
                terms = several
            after = look(before, terms)
            if after is not None:
                rows.append((index, after))
        if rows:
            changes.append(PartitionsChanged(topic.topic_id, tuple(rows)))
    return changes
