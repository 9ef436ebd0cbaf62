"""CreatePartitions (API key 37): adds partitions to topics.

Versions 0 to 3, flexible from 2. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: flexible encoding.
- 3: the response may carry the error THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    string,
)


class CreatePartitionsAssignment(Nested):
    """An element of ``assignments`` in ``CreatePartitionsTopic``."""

    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Nested):
    """An element of ``topics`` in ``CreatePartitionsRequest``."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable=True
    )


class CreatePartitionsRequest(Request, key=37, versions=(0, 3), flexible=2):
    """Adds partitions to topics."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Nested):
    """An element of ``results`` in ``CreatePartitionsResponse``."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class CreatePartitionsResponse(Response, key=37, versions=(0, 3), flexible=2):
    """The answer to ``CreatePartitionsRequest``."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
