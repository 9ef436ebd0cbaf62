"""The requests about replicas that cost most; a part of ``bench.worst_requests``."""

from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest
from kwire.protocol.messages.elect_leaders import TopicPartitions as ElectedPartitions
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


def _moves(count: int) -> list[ReassignableTopic]:
    partitions = [ReassignablePartition(partition_index=n, replicas=[1]) for n in range(count)]
    return [ReassignableTopic(name="t", partitions=partitions)]


def _directories(count: int) -> list[AlterReplicaLogDir]:
    topics = [AlterReplicaLogDirTopic(name="t", partitions=list(range(count)))]
    return [AlterReplicaLogDir(path="/nowhere", topics=topics)]


def _all_of_topic(count: int) -> list[ListPartitionReassignmentsTopics]:
    return [ListPartitionReassignmentsTopics(name="t", partition_indexes=list(range(count)))]


WORST_OF_REPLICAS = {
    "ElectLeaders": lambda count: ElectLeadersRequest(
        topic_partitions=[ElectedPartitions(topic="t", partitions=list(range(count)))]
    ),
    "AlterPartitionReassignments": lambda count: AlterPartitionReassignmentsRequest(
        topics=_moves(count)
    ),
    "AlterReplicaLogDirs": lambda count: AlterReplicaLogDirsRequest(dirs=_directories(count)),
    "ListPartitionReassignments": lambda count: ListPartitionReassignmentsRequest(
        topics=_all_of_topic(count)
    ),
}
"""Requests whose cost grows with the number of their elements."""
