"""Decisions about a cluster on one machine that starts again, perhaps with fewer brokers; pure.

Rules:

- A broker that has replicas must be among the brokers that start: no other broker has their
  records.
- All brokers of one machine start together, so none of them runs yet. Each broker is fenced until
  it registers. A broker that doesn't start any more is unregistered.
- A single broker has no registration as in a cluster: it has no incarnation, and it is never
  fenced. It leads all partitions that it has.
- A cluster that leaves its store keeps the brokers whose data directories are here. They keep the
  replicas that they have, if one of them has all acknowledged records: one of the ISR, or if that
  is empty, an eligible one.
"""

from collections.abc import Collection, Iterable

from kwire.metadata.changes import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ControllerElected,
    apply,
)
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage
from kwire.metadata.leader_election import ElectionRules
from kwire.metadata.partition_change import changed_partition, changes_of_partitions, with_broker
from kwire.metadata.registration import fence

SHOWN = 3
"""How many topics an error names."""


class ReplicasElsewhere(Exception):
    """Brokers that won't start have replicas; the text is one line that says what to do."""


def begin_together(image: MetadataImage, nodes: Collection[int]) -> list[Change]:
    """The changes before these brokers start; ReplicasElsewhere."""
    check_replicas(image, nodes)
    changes = fence(image, frozenset(image.brokers))
    return changes + [BrokerUnregistered(node) for node in image.brokers if node not in nodes]


def be_alone(image: MetadataImage, broker: BrokerImage) -> list[Change]:
    """The changes that turn a broker of a cluster into a single broker; ReplicasElsewhere."""
    own = broker.node_id
    check_replicas(image, {own})
    changes: list[Change] = [BrokerUnregistered(node) for node in image.brokers if node != own]
    changes.append(BrokerRegistered(broker))
    registered = apply(image, changes, image.revision)
    assert set(registered.brokers) == {own}, registered.brokers.keys()
    elected = ControllerElected(own, image.controller_epoch + 1)
    return [*changes, *with_broker(registered, own), elected]


def check_replicas(image: MetadataImage, nodes: Collection[int]) -> None:
    """Raise ReplicasElsewhere if other brokers than these have replicas."""
    topics: list[str] = []
    missing: set[int] = set()
    for topic in image.topics_by_name.values():
        found = {node for one in topic.partitions for node in one.replicas if node not in nodes}
        if found:
            topics.append(topic.name)
            missing |= found
    if not missing:
        return
    ids = _listed(missing)
    needed = max(missing) - min(nodes) + 1
    remedy = (
        f"start with kwire serve --workers {needed}; fewer workers can start once no partition is "
        "on the others"
        if min(missing) > min(nodes)
        else f"start with -o node.id={min(missing)}, as before"
    )
    raise ReplicasElsewhere(
        f"partitions of {_named(topics)} are on node.id {ids}, which would not start: {remedy}"
    )


def gather(image: MetadataImage, nodes: Collection[int]) -> list[Change]:
    """The changes that leave a stopped cluster to these brokers alone; ReplicasElsewhere."""
    _check_gathered(image, nodes)

    def change_of(partition: PartitionImage, rules: ElectionRules) -> PartitionImage | None:
        if all(node in nodes for node in partition.replicas):
            return None
        kept = partition._replace(
            replicas=_of(partition.replicas, nodes),
            isr=_of(partition.isr, nodes),
            elr=_of(partition.elr, nodes),
            adding=(),
            removing=(),
        )
        assert kept.replicas, partition  # as ``_check_gathered`` has looked
        return changed_partition(partition, kept, rules)

    changes = changes_of_partitions(image, (), change_of)
    changes += fence(apply(image, changes, image.revision), frozenset(image.brokers))
    return changes + [BrokerUnregistered(node) for node in image.brokers if node not in nodes]


def _check_gathered(image: MetadataImage, nodes: Collection[int]) -> None:
    """Raise ReplicasElsewhere if these brokers lack a partition, or records of a partition."""
    away: list[str] = []
    behind: list[str] = []
    holders: set[int] = set()
    for topic in image.topics_by_name.values():
        for partition in topic.partitions:
            kept = _of(partition.replicas, nodes)
            whole = partition.isr or partition.elr
            if not kept:
                away.append(topic.name)
                holders.update(partition.replicas)
            elif kept != partition.replicas and not _of(whole, kept):
                behind.append(topic.name)
                holders.update(whole)
    ids, here = _listed(holders), _listed(nodes)
    if away:
        raise ReplicasElsewhere(
            f"partitions of {_named(away)} are on node.id {ids} alone: start the cluster, move "
            f"them to node.id {here} with kafka-reassign-partitions.sh, and stop it again"
        )
    if behind:
        raise ReplicasElsewhere(
            f"the replicas of {_named(behind)} on node.id {here} may lack records that node.id "
            f"{ids} has: start the cluster, wait until all replicas are in sync, and stop node.id "
            f"{here} last"
        )


def _of(replicas: Iterable[int], nodes: Collection[int]) -> tuple[int, ...]:
    return tuple([node for node in replicas if node in nodes])


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))


def _named(topics: Iterable[str]) -> str:
    """The first of these topics, and how many more there are."""
    names = sorted(set(topics))
    more = f" and {len(names) - SHOWN} more topic(s)" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
