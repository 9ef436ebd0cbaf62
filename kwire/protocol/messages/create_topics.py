"""CreateTopics (API key 19): creates topics.

Versions 2 to 7, flexible from 5. Changes by version:

- 3: the broker sends the response before it throttles the client (KIP-219).
- 4: -1 partitions or replicas mean the broker's default (KIP-464).
- 5: flexible encoding; the response gains ``CreatableTopicResult.topic_config_error_code``,
  ``CreatableTopicResult.num_partitions``, ``CreatableTopicResult.replication_factor`` and
  ``CreatableTopicResult.configs``; KIP-525.
- 6: the response may carry the error THROTTLING_QUOTA_EXCEEDED (KIP-599).
- 7: the response gains ``CreatableTopicResult.topic_id``; KIP-516.
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
    string,
    uuid,
)


class CreatableReplicaAssignment(Nested):
    """An element of ``assignments`` in ``CreatableTopic``."""

    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


class CreatableTopicConfig(Nested):
    """An element of ``configs`` in ``CreatableTopic``."""

    name: str = string()
    value: str | None = string(nullable=True)


class CreatableTopic(Nested):
    """An element of ``topics`` in ``CreateTopicsRequest``."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(Request, key=19, versions=(2, 7), flexible=5):
    """Creates topics."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


class CreatableTopicConfigs(Nested):
    """An element of ``configs`` in ``CreatableTopicResult``."""

    name: str = string()
    value: str | None = string(nullable=True)
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()


class CreatableTopicResult(Nested):
    """An element of ``topics`` in ``CreateTopicsResponse``."""

    name: str = string()
    topic_id: bytes = uuid(since=7, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)
    topic_config_error_code: int = int16(since=5, tag=0, ignorable=True)
    num_partitions: int = int32(since=5, default=-1, ignorable=True)
    replication_factor: int = int16(since=5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, since=5, nullable=True, ignorable=True
    )


class CreateTopicsResponse(Response, key=19, versions=(2, 7), flexible=5):
    """The answer to ``CreateTopicsRequest``."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
