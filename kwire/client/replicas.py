"""Where replicas are, and which of them lead: moves (KIP-455) and elections (KIP-460)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.errors import error_of
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import by_topic
from kwire.errors import KafkaError
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


class Move(NamedTuple):
    """A move that goes on: all replicas, those that are added, and those that go."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


async def list_moves(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Move]:
    """The moves that go on, of some partitions or of all; KafkaError."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(
                name=name, partition_indexes=[one.partition for one in mine]
            )
            for name, mine in by_topic(partitions)
        ]
    request = ListPartitionReassignmentsRequest(topics=topics, timeout_ms=_timeout_ms(cluster))
    answer = await cluster.ask_controller(
        request, ListPartitionReassignmentsResponse, lambda answer: [answer.error_code]
    )
    error = error_of(answer.error_code, answer.error_message, "the moves of replicas")
    if error is not None:
        raise error
    found = {
        TopicPartition(topic.name, row.partition_index): Move(
            row.replicas, row.adding_replicas, row.removing_replicas
        )
        for topic in answer.topics
        for row in topic.partitions
    }
    return dict(sorted(found.items()))


async def move_replicas(
    cluster: Cluster, wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError | None]:
    """Begin to move partitions to brokers, or cancel their moves (None); the error of each."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=_timeout_ms(cluster),
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(
                        partition_index=one.partition, replicas=_list(wanted[one])
                    )
                    for one in mine
                ],
            )
            for name, mine in by_topic(wanted)
        ],
    )
    answer = await cluster.ask_controller(
        request, AlterPartitionReassignmentsResponse, lambda answer: [answer.error_code]
    )
    error = error_of(answer.error_code, answer.error_message, "the moves of replicas")
    if error is not None:
        raise error
    return {
        TopicPartition(topic.name, row.partition_index): error_of(
            row.error_code, row.error_message, f"{topic.name}-{row.partition_index}"
        )
        for topic in answer.responses
        for row in topic.partitions
    }


async def elect_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, unclean: bool = False
) -> dict[TopicPartition, KafkaError | None]:
    """Elect the preferred replicas, or with ``unclean`` any that is there; the error of each."""
    request = ElectLeadersRequest(
        election_type=int(unclean),
        topic_partitions=[
            TopicPartitions(topic=name, partitions=[one.partition for one in mine])
            for name, mine in by_topic(partitions)
        ],
        timeout_ms=_timeout_ms(cluster),
    )
    answer = await cluster.ask_controller(
        request, ElectLeadersResponse, lambda answer: [answer.error_code]
    )
    error = error_of(answer.error_code, None, "the elections")
    if error is not None:
        raise error
    return {
        TopicPartition(topic.topic, row.partition_id): error_of(
            row.error_code, row.error_message, f"{topic.topic}-{row.partition_id}"
        )
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }


def _list(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _timeout_ms(cluster: Cluster) -> int:
    return int(cluster.settings.request_timeout_s * 1000)
