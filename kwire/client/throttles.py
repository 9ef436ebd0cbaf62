"""Limits for the copying of replicas that move, as kafka-reassign-partitions.sh sets them.

A topic names the replicas that are slowed down, as ``partition:broker``: on the leaders' side those
that a partition has, on the followers' side those that it gets. A broker says how fast. Replicas
that are in sync aren't slowed down, whatever is set.
"""

from collections.abc import Collection, Mapping, Sequence

from kwire.client.cluster import Cluster
from kwire.client.configs import Change, Resource, ResourceType, alter_configs
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import by_topic

LEADERS = "leader.replication.throttled"
FOLLOWERS = "follower.replication.throttled"

Assignment = Mapping[TopicPartition, Sequence[int]]


async def set_throttles(
    cluster: Cluster, present: Assignment, wanted: Assignment, rate: int
) -> None:
    """Let the brokers of moves copy ``rate`` bytes a second each; KafkaError."""
    nodes: set[int] = set()
    for topic, partitions in by_topic(wanted):
        old = [(one.partition, node) for one in partitions for node in present.get(one, ())]
        new = [
            (one.partition, node)
            for one in partitions
            for node in wanted[one]
            if node not in present.get(one, ())
        ]
        nodes |= {node for _, node in (*old, *new)}
        change = {f"{LEADERS}.replicas": _pairs(old), f"{FOLLOWERS}.replicas": _pairs(new)}
        await alter_configs(cluster, Resource(ResourceType.TOPIC, topic), Change(change))
    change = {f"{LEADERS}.rate": str(rate), f"{FOLLOWERS}.rate": str(rate)}
    for node in sorted(nodes):
        await alter_configs(cluster, Resource(ResourceType.BROKER, str(node)), Change(change))


async def remove_throttles(cluster: Cluster, topics: Collection[str]) -> None:
    """Take the limits from topics and from all brokers that run; KafkaError."""
    for name in sorted(topics):
        unset = Change({}, (f"{LEADERS}.replicas", f"{FOLLOWERS}.replicas"))
        await alter_configs(cluster, Resource(ResourceType.TOPIC, name), unset)
    for broker in (await cluster.metadata()).brokers:
        unset = Change({}, (f"{LEADERS}.rate", f"{FOLLOWERS}.rate"))
        await alter_configs(cluster, Resource(ResourceType.BROKER, str(broker.node_id)), unset)


def _pairs(replicas: Sequence[tuple[int, int]]) -> str:
    return ",".join(f"{partition}:{node}" for partition, node in replicas)
