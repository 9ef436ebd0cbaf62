"""ShareGroupHeartbeat (API key 76): joins, stays in and leaves a share group (KIP-932).

Version 1, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    string,
    struct,
    uuid,
)


class ShareGroupHeartbeatRequest(Request, key=76, versions=(1, 1), flexible=0):
    """Joins, stays in and leaves a share group (KIP-932)."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable=True, default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable=True, default=None)


class TopicPartitions(Nested):
    """An element of ``topic_partitions`` in ``Assignment``."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class Assignment(Nested):
    """The ``assignment`` in ``ShareGroupHeartbeatResponse``."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Response, key=76, versions=(1, 1), flexible=0):
    """The answer to ``ShareGroupHeartbeatRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable=True, default=None)
