"""Which member answers queries about which partitions: endpoint information (KIP-1071).

A member may name an endpoint, at which its state can be queried. All members are told which
partitions the tasks at each endpoint read; a topic that two subtopologies read is listed for each,
as in Kafka. What is said of a member is kept until its tasks, its endpoint or the topics change.

Source: EndpointToPartitionsManager of Kafka 4.4.
"""

from collections.abc import Iterable, Mapping

from kwire.coordinator.consumer.topics import Topics
from kwire.coordinator.streams.group import StreamsGroup, ToldEndpoint
from kwire.coordinator.streams.member import StreamsMember
from kwire.coordinator.streams.topology.configured import ConfiguredTopology
from kwire.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def partitions_by_endpoint(group: StreamsGroup, topics: Topics) -> list[EndpointToPartitions]:
    """What each endpoint of the group's members answers about."""
    kept, configured = group.unrecorded.endpoints, group.unrecorded.configured
    found = []
    for member_id, member in group.members.items():
        endpoint = member.about.user_endpoint
        if endpoint is None or configured is None:
            continue
        known = kept.get(member_id)
        if known is None or known[:2] != (endpoint, member.assigned):
            said = _partitions_of(member, endpoint, configured.result, topics)
            kept[member_id] = known = ToldEndpoint(endpoint, member.assigned, said)
        found.append(known.said)
    return found


def _partitions_of(
    member: StreamsMember, endpoint: tuple[str, int], topology: ConfiguredTopology, topics: Topics
) -> EndpointToPartitions:
    owned = member.assigned
    copies = {
        s: {*owned.standby.get(s, ()), *owned.warmup.get(s, ())}
        for s in {*owned.standby, *owned.warmup}
    }
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=endpoint[0], port=endpoint[1]),
        active_partitions=_read_by(owned.active, topology, topics),
        standby_partitions=_read_by(copies, topology, topics),
    )


def _read_by(
    tasks: Mapping[str, Iterable[int]], topology: ConfiguredTopology, topics: Topics
) -> list[TopicPartition]:
    """The partitions that tasks read; a topic may have fewer partitions than there are tasks."""
    found = []
    for subtopology_id, partitions in sorted(tasks.items()):
        subtopology = topology.subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        for name in sorted({*subtopology.source_topics, *subtopology.repartition_source_topics}):
            topic = topics.by_name(name)
            count = 0 if topic is None else topic.partitions
            read = sorted(partition for partition in partitions if partition < count)
            if read:
                found.append(TopicPartition(topic=name, partitions=read))
    return found
