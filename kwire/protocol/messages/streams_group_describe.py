"""StreamsGroupDescribe (API key 89): shows streams groups (KIP-1071).

Versions 0 to 1, flexible. Changes by version:

- 1: the request gains ``include_topology_description``; a group gains ``topology_description``,
  ``topology_description_status`` (KIP-1331) and ``assignor_name`` (KIP-1357).
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


class StreamsGroupDescribeRequest(Request, key=89, versions=(0, 1), flexible=0):
    """Shows streams groups (KIP-1071)."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean(since=1)


class KeyValue(Nested):
    """An element of ``topic_configs`` in ``TopicInfo`` and ``client_tags`` in ``Member``."""

    key: str = string()
    value: str = string()


class TopicInfo(Nested):
    """An element of ``repartition_source_topics`` or ``state_changelog_topics``."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class Subtopology(Nested):
    """An element of ``subtopologies`` in ``Topology``."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    repartition_sink_topics: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


class Topology(Nested):
    """The ``topology`` in ``DescribedGroup``."""

    epoch: int = int32()
    subtopologies: list[Subtopology] | None = array(Subtopology, nullable=True, default=None)


class Endpoint(Nested):
    """The ``user_endpoint`` in ``Member``."""

    host: str = string()
    port: int = uint16()


class TaskOffset(Nested):
    """An element of ``task_offsets`` in ``Member`` and ``task_end_offsets`` in ``Member``."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class TaskIds(Nested):
    """An element of ``active_tasks`` or ``standby_tasks`` or ``warmup_tasks``."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class Assignment(Nested):
    """The ``assignment`` in ``Member`` and ``target_assignment`` in ``Member``."""

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class Member(Nested):
    """An element of ``members`` in ``DescribedGroup``."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable=True, default=None)
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    is_classic: bool = boolean()


class TopologyDescriptionNode(Nested):
    """An element of ``nodes``, or the ``source`` or ``processor`` of a global store."""

    name: str = string(since=1)
    node_type: int = int8(since=1)
    source_topics: list[str] = array(string, since=1)
    sink_topic: str | None = string(since=1, nullable=True, default=None)
    stores: list[str] = array(string, since=1)
    successors: list[str] = array(string, since=1)


class TopologyDescriptionSubtopology(Nested):
    """An element of ``subtopologies`` in ``TopologyDescription``."""

    subtopology_id: str = string(since=1)
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode, since=1)


class TopologyDescriptionGlobalStore(Nested):
    """An element of ``global_stores`` in ``TopologyDescription``."""

    source: TopologyDescriptionNode = struct(TopologyDescriptionNode, since=1)
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode, since=1)


class TopologyDescription(Nested):
    """The ``topology_description`` in ``DescribedGroup``."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(
        TopologyDescriptionSubtopology, since=1
    )
    global_stores: list[TopologyDescriptionGlobalStore] = array(
        TopologyDescriptionGlobalStore, since=1
    )


class DescribedGroup(Nested):
    """An element of ``groups`` in ``StreamsGroupDescribeResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: Topology | None = struct(Topology, nullable=True, default=None)
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)
    topology_description: TopologyDescription | None = struct(
        TopologyDescription, since=1, nullable=True, default=None
    )
    topology_description_status: int = int8(since=1)
    assignor_name: str | None = string(since=1, nullable=True, default=None, ignorable=True)


class StreamsGroupDescribeResponse(Response, key=89, versions=(0, 1), flexible=0):
    """The answer to ``StreamsGroupDescribeRequest``."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
