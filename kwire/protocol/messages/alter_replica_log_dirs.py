"""AlterReplicaLogDirs (API key 34): moves replicas between the log directories of a broker.

Versions 1 to 2, flexible from 2. Changes by version:

- 2: flexible encoding.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    string,
)


class AlterReplicaLogDirTopic(Nested):
    """An element of ``topics`` in ``AlterReplicaLogDir``."""

    name: str = string()
    partitions: list[int] = array(int32)


class AlterReplicaLogDir(Nested):
    """An element of ``dirs`` in ``AlterReplicaLogDirsRequest``."""

    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Request, key=34, versions=(1, 2), flexible=2):
    """Moves replicas between the log directories of a broker."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Nested):
    """An element of ``partitions`` in ``AlterReplicaLogDirTopicResult``."""

    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Nested):
    """An element of ``results`` in ``AlterReplicaLogDirsResponse``."""

    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Response, key=34, versions=(1, 2), flexible=2):
    """The answer to ``AlterReplicaLogDirsRequest``."""

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
