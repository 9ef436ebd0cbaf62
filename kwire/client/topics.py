"""Creating and deleting topics, and adding partitions."""

from collections.abc import Mapping, Sequence

from kwire.client.cluster import Cluster
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

DEFAULT = -1
"""The broker's own number of partitions or replicas."""

_WITH_STATES = 6


async def create_topics(
    cluster: Cluster,
    names: Sequence[str],
    *,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    configs: Mapping[str, str] | None = None,
    only_checks: bool = False,
) -> dict[str, CreatableTopicResult | KafkaError]:
    """Create topics, or only check whether that is possible; the result for each name."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                configs=[
                    CreatableTopicConfig(name=key, value=value)
                    for key, value in (configs or {}).items()
                ],
            )
            for name in names
        ],
        timeout_ms=_timeout_ms(cluster),
        validate_only=only_checks,
    )
    answer = await cluster.ask_controller(
        request, CreateTopicsResponse, lambda answer: [row.error_code for row in answer.topics]
    )
    return {
        row.name: _error(row.error_code, row.error_message, row.name) or row
        for row in answer.topics
    }


async def delete_topics(cluster: Cluster, names: Sequence[str]) -> dict[str, KafkaError | None]:
    """Delete topics; the error of each name, None after success."""
    controller = await cluster.any_peer()
    newest = (await controller.served()).ranges.get(DeleteTopicsRequest.API_KEY, (0, 0))[1]
    request = DeleteTopicsRequest(timeout_ms=_timeout_ms(cluster))
    if newest >= _WITH_STATES:
        request.topics = [DeleteTopicState(name=name) for name in names]
    else:
        request.topic_names = list(names)
    answer = await cluster.ask_controller(
        request, DeleteTopicsResponse, lambda answer: [row.error_code for row in answer.responses]
    )
    return {
        row.name or "": _error(row.error_code, row.error_message, row.name or "")
        for row in answer.responses
    }


async def create_partitions(
    cluster: Cluster, name: str, count: int, *, only_checks: bool = False
) -> None:
    """Give a topic more partitions, ``count`` in all; KafkaError."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)],
        timeout_ms=_timeout_ms(cluster),
        validate_only=only_checks,
    )
    answer = await cluster.ask_controller(
        request, CreatePartitionsResponse, lambda answer: [row.error_code for row in answer.results]
    )
    for row in answer.results:
        error = _error(row.error_code, row.error_message, name)
        if error is not None:
            raise error


def _timeout_ms(cluster: Cluster) -> int:
    return int(cluster.settings.request_timeout_s * 1000)


def _error(number: int, message: str | None, name: str) -> KafkaError | None:
    if not number:
        return None
    return KafkaError(ErrorCode(number), message or f"topic {name}")
