"""AssignReplicasToDirs (API key 73): tells the controller in which log directories replicas are.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    int64,
    uuid,
)


class AssignReplicasToDirsRequestPartitionData(Nested):
    """An element of ``partitions`` in ``AssignReplicasToDirsRequestTopicData``."""

    partition_index: int = int32()


class AssignReplicasToDirsRequestTopicData(Nested):
    """An element of ``topics`` in ``AssignReplicasToDirsRequestDirectoryData``."""

    topic_id: bytes = uuid()
    partitions: list[AssignReplicasToDirsRequestPartitionData] = array(
        AssignReplicasToDirsRequestPartitionData
    )


class AssignReplicasToDirsRequestDirectoryData(Nested):
    """An element of ``directories`` in ``AssignReplicasToDirsRequest``."""

    id: bytes = uuid()
    topics: list[AssignReplicasToDirsRequestTopicData] = array(AssignReplicasToDirsRequestTopicData)


class AssignReplicasToDirsRequest(Request, key=73, versions=(0, 0), flexible=0):
    """Tells the controller in which log directories replicas are."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData] = array(
        AssignReplicasToDirsRequestDirectoryData
    )


class AssignReplicasToDirsResponsePartitionData(Nested):
    """An element of ``partitions`` in ``AssignReplicasToDirsResponseTopicData``."""

    partition_index: int = int32()
    error_code: int = int16()


class AssignReplicasToDirsResponseTopicData(Nested):
    """An element of ``topics`` in ``AssignReplicasToDirsResponseDirectoryData``."""

    topic_id: bytes = uuid()
    partitions: list[AssignReplicasToDirsResponsePartitionData] = array(
        AssignReplicasToDirsResponsePartitionData
    )


class AssignReplicasToDirsResponseDirectoryData(Nested):
    """An element of ``directories`` in ``AssignReplicasToDirsResponse``."""

    id: bytes = uuid()
    topics: list[AssignReplicasToDirsResponseTopicData] = array(
        AssignReplicasToDirsResponseTopicData
    )


class AssignReplicasToDirsResponse(Response, key=73, versions=(0, 0), flexible=0):
    """The answer to ``AssignReplicasToDirsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[AssignReplicasToDirsResponseDirectoryData] = array(
        AssignReplicasToDirsResponseDirectoryData
    )
