"""ListPartitionReassignments (API key 46): lists the moves of replicas that are under way.

Version 0, flexible.
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


class ListPartitionReassignmentsTopics(Nested):
    """An element of ``topics`` in ``ListPartitionReassignmentsRequest``."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class ListPartitionReassignmentsRequest(Request, key=46, versions=(0, 0), flexible=0):
    """Lists the moves of replicas that are under way."""

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable=True, default=None
    )


class OngoingPartitionReassignment(Nested):
    """An element of ``partitions`` in ``OngoingTopicReassignment``."""

    partition_index: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


class OngoingTopicReassignment(Nested):
    """An element of ``topics`` in ``ListPartitionReassignmentsResponse``."""

    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Response, key=46, versions=(0, 0), flexible=0):
    """The answer to ``ListPartitionReassignmentsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
