"""ConsumerGroupHeartbeat (API key 68): joins, stays in and leaves a consumer group of the new
protocol (KIP-848).

Versions 0 to 1, flexible. Changes by version:

- 1: the request gains ``subscribed_topic_regex``; members may subscribe by a regular expression,
  and clients choose their member ids (KIP-1082).
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


class TopicPartitions(Nested):
    """An element of ``topic_partitions``."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Request, key=68, versions=(0, 1), flexible=0):
    """Joins, stays in and leaves a consumer group of the new protocol (KIP-848)."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable=True, default=None)
    subscribed_topic_regex: str | None = string(since=1, nullable=True, default=None)
    server_assignor: str | None = string(nullable=True, default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable=True, default=None
    )


class Assignment(Nested):
    """The ``assignment`` in ``ConsumerGroupHeartbeatResponse``."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, key=68, versions=(0, 1), flexible=0):
    """The answer to ``ConsumerGroupHeartbeatRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable=True, default=None)
