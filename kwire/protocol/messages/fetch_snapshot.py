"""FetchSnapshot (API key 59): reads a piece of a metadata snapshot.

Versions 0 to 1, flexible. Changes by version:

- 1: the request gains ``FetchSnapshotRequestPartitionSnapshot.replica_directory_id``; the
  response gains ``node_endpoints``.
"""

from kwire.protocol.file_slice import Records
from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uint16,
    uuid,
)


class SnapshotId(Nested):
    """The ``snapshot_id``."""

    end_offset: int = int64()
    epoch: int = int32()


class FetchSnapshotRequestPartitionSnapshot(Nested):
    """An element of ``partitions`` in ``FetchSnapshotRequestTopicSnapshot``."""

    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid(since=1, tag=0, ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Nested):
    """An element of ``topics`` in ``FetchSnapshotRequest``."""

    name: str = string()
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = array(
        FetchSnapshotRequestPartitionSnapshot
    )


class FetchSnapshotRequest(Request, key=59, versions=(0, 1), flexible=0):
    """Reads a piece of a metadata snapshot."""

    cluster_id: str | None = string(nullable=True, default=None, tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=0x7FFFFFFF)
    topics: list[FetchSnapshotRequestTopicSnapshot] = array(FetchSnapshotRequestTopicSnapshot)


class LeaderIdAndEpoch(Nested):
    """The ``current_leader`` in ``FetchSnapshotResponsePartitionSnapshot``."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class FetchSnapshotResponsePartitionSnapshot(Nested):
    """An element of ``partitions`` in ``FetchSnapshotResponseTopicSnapshot``."""

    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Records = record_batches(default=b"")


class FetchSnapshotResponseTopicSnapshot(Nested):
    """An element of ``topics`` in ``FetchSnapshotResponse``."""

    name: str = string()
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = array(
        FetchSnapshotResponsePartitionSnapshot
    )


class NodeEndpoint(Nested):
    """An element of ``node_endpoints`` in ``FetchSnapshotResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class FetchSnapshotResponse(Response, key=59, versions=(0, 1), flexible=0):
    """The answer to ``FetchSnapshotRequest``."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    topics: list[FetchSnapshotResponseTopicSnapshot] = array(FetchSnapshotResponseTopicSnapshot)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)
