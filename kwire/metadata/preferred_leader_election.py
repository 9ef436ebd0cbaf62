"""Elections that the controller begins by itself: of preferred leaders, and where none leads; pure.

Rules:

- The preferred leader of a partition is the first of ``replicas``. The controller gives partitions
  back to a preferred leader unless it already leads 90 % of the partitions that prefer it. So after
  a restart, the leaders are spread over all brokers again. For single partitions an election isn't
  worth it, because clients have to find the new leader.
- One commit has at most 1,000 elections, as in Kafka. The next commit continues.
- A partition without a leader gets one as soon as its topic's configs allow it.

Source: ReplicationControlManager.maybeBalancePartitionLeaders, maybeElectUncleanLeaders of Kafka;
leader.imbalance.per.broker.percentage of Kafka's former controller.
"""

from collections import Counter

from kwire.metadata.changes import Change, PartitionsChanged
from kwire.metadata.image import MetadataImage, PartitionImage
from kwire.metadata.leader_election import NO_LEADER, ElectionRules, active_brokers
from kwire.metadata.partition_change import (
    changed_partition,
    changes_of_partitions,
    with_elected_leader,
)

MOST_ELECTIONS = 1000
MOST_IMBALANCE = 0.1


def elect_preferred_leaders(image: MetadataImage) -> list[Change]:
    """The changes that elect preferred leaders, for brokers that lead too few partitions."""
    active = active_brokers(image)
    preferred: Counter[int] = Counter()
    missing: Counter[int] = Counter()
    for topic in image.topics_by_name.values():
        for partition in topic.partitions:
            first = partition.replicas[0]
            preferred[first] += 1
            if partition.leader != first and len(partition.replicas) > 1:
                missing[first] += 1
    few = {
        node
        for node, count in missing.items()
        if node in active and count > MOST_IMBALANCE * preferred[node]
    }
    if not few:
        return []
    left = MOST_ELECTIONS

    def change_of(partition: PartitionImage, rules: ElectionRules) -> PartitionImage | None:
        nonlocal left
        first = partition.replicas[0]
        if not left or partition.leader == first or first not in few or first not in partition.isr:
            return None
        left -= 1
        return with_elected_leader(partition, rules, unclean=False)

    changes = changes_of_partitions(image, active, change_of)
    assert left >= 0, left  # or one commit would be longer than brokers take at once
    return changes


def count_elections(changes: list[Change]) -> int:
    """How many partitions these changes concern."""
    return sum(len(change.rows) for change in changes if isinstance(change, PartitionsChanged))


def elect_missing_leaders(image: MetadataImage) -> list[Change]:
    """The changes that elect leaders of replicated partitions without one, if that is allowed."""

    def change_of(partition: PartitionImage, rules: ElectionRules) -> PartitionImage | None:
        if partition.leader != NO_LEADER or len(partition.replicas) == 1:
            return None
        return changed_partition(partition, partition, rules)

    return changes_of_partitions(image, active_brokers(image), change_of)
