"""StreamsGroupHeartbeat (API key 88): joins, stays in and leaves a streams group (KIP-1071).

Versions 0 to 1, flexible. Changes by version:

- 1: the response gains ``topology_description_required`` (KIP-1331), and has
  ``acceptable_recovery_lag`` in place of ``acceptable_recovery_lag_legacy``; a status may be
  MISSING_CLIENT_TAGS.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)


class KeyValue(Nested):
    """An element of ``client_tags`` or ``topic_configs``."""

    key: str = string()
    value: str = string()


class TopicInfo(Nested):
    """An element of ``repartition_source_topics`` or ``state_changelog_topics``."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class CopartitionGroup(Nested):
    """An element of ``copartition_groups`` in ``Subtopology``."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Nested):
    """An element of ``subtopologies`` in ``Topology``."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class Topology(Nested):
    """The ``topology`` in ``StreamsGroupHeartbeatRequest``."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


class TaskIds(Nested):
    """An element of ``active_tasks`` or ``standby_tasks`` or ``warmup_tasks``."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class Endpoint(Nested):
    """The ``user_endpoint``."""

    host: str = string()
    port: int = uint16()


class TaskOffset(Nested):
    """An element of ``task_end_offsets`` or ``task_offsets``."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(Request, key=88, versions=(0, 1), flexible=0):
    """Joins, stays in and leaves a streams group (KIP-1071)."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = struct(Topology, nullable=True, default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable=True, default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable=True, default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable=True, default=None)
    process_id: str | None = string(nullable=True, default=None)
    user_endpoint: Endpoint | None = struct(Endpoint, nullable=True, default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable=True, default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable=True, default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable=True, default=None)
    shutdown_application: bool = boolean()


class Status(Nested):
    """An element of ``status`` in ``StreamsGroupHeartbeatResponse``."""

    status_code: int = int8()
    status_detail: str = string()


class TopicPartition(Nested):
    """An element of ``active_partitions`` or ``standby_partitions``."""

    topic: str = string()
    partitions: list[int] = array(int32)


class EndpointToPartitions(Nested):
    """An element of ``partitions_by_user_endpoint`` in ``StreamsGroupHeartbeatResponse``."""

    user_endpoint: Endpoint = struct(Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


class StreamsGroupHeartbeatResponse(Response, key=88, versions=(0, 1), flexible=0):
    """The answer to ``StreamsGroupHeartbeatRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32(until=0)
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64(since=1, default=-1, ignorable=True)
    status: list[Status] | None = array(Status, nullable=True)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable=True, default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable=True, default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable=True, default=None)
    topology_description_required: bool = boolean(since=1)
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable=True, default=None
    )
