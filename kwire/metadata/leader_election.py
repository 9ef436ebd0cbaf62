"""Which replica leads a partition: clean and unclean elections; pure.

Rules:

- A leader that may lead stays the leader. Otherwise the first of the replicas in the ISR leads.
  With an empty ISR, one of the ELR leads. If the ELR is empty, too, the last leader leads, although
  it may lack records. If that isn't possible, the partition has no leader, or with an unclean
  election any active replica leads.
- A leader from outside the ISR becomes the only member of the ISR. If it may lack records, the
  partition ``is_recovering`` until the leader reports that it has recovered.

Source: PartitionChangeBuilder.electLeader of Kafka; KIP-966.
"""

from collections.abc import Container, Iterable
from enum import Enum
from typing import NamedTuple

from kwire.metadata.image import MetadataImage, PartitionImage
from kwire.metadata.replication_configs import ReplicationConfigs

NO_LEADER = -1


class Election(Enum):
    """The replicas that may be elected: those with all records, the preferred one first, or any."""

    ONLINE = 0
    PREFERRED = 1
    UNCLEAN = 2


class ElectionRules(NamedTuple):
    """What an election goes by.

    ``active`` are the brokers that may lead. ``doubtful`` are the brokers whose replicas may have
    lost records in a power cut.
    """

    active: Container[int]
    min_isr: int = 1
    election: Election = Election.ONLINE
    doubtful: Container[int] = ()


def election_rules(
    configs: ReplicationConfigs, topic: str, partition: PartitionImage, active: Container[int]
) -> ElectionRules:
    """The rules that a topic's configs set. No config lets an only replica lead uncleanly."""
    allows = len(partition.replicas) > 1 and configs.allows_unclean(topic)
    election = Election.UNCLEAN if allows else Election.ONLINE
    return ElectionRules(active, configs.min_isr(topic), election)


def active_brokers(image: MetadataImage) -> frozenset[int]:
    """The brokers that may lead."""
    return frozenset(node for node, broker in image.brokers.items() if broker.is_active)


def elect_leader(
    before: PartitionImage, after: PartitionImage, rules: ElectionRules
) -> PartitionImage:
    """The partition after the election of its leader."""
    active = rules.active
    eligible = [node for node in after.replicas if node in (after.isr or after.elr)]
    leader = _clean_leader(after, [node for node in eligible if node in active], rules.election)
    if leader is not None:
        assert leader in active, (leader, after)  # a broker that is fenced answers nobody
        if leader in after.isr:
            return after._replace(leader=leader, last_known_elr=())
        elr = without_nodes(after.elr, (leader,)) if rules.min_isr > 1 else ()
        return after._replace(leader=leader, isr=(leader,), elr=elr, last_known_elr=())
    leader = _unclean_leader(after, rules)
    if leader is not None:
        assert leader in after.replicas, (leader, after)
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


def _unclean_leader(partition: PartitionImage, rules: ElectionRules) -> int | None:
    """The replica that leads although it may lack records; None if no replica may."""
    last = partition.last_known_elr
    if not partition.isr and not partition.elr and len(last) == 1 and last[0] in rules.active:
        return last[0]
    if rules.election is not Election.UNCLEAN:
        return None
    return next((node for node in partition.replicas if node in rules.active), None)


def without_nodes(nodes: Iterable[int], lost: Container[int]) -> tuple[int, ...]:
    """The nodes that are not among the lost ones, in their order."""
    return tuple([node for node in nodes if node not in lost])
