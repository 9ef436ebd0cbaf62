"""Configs of topics, brokers, groups and broker loggers: describe and change."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kwire.client.cluster import Cluster
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_SET = 0
_DELETE = 1


class ResourceType(IntEnum):
    """The types of resources that have configs; the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "properties file",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
"""The names of the sources of values, by ``config_source``."""

DEFAULT_SOURCE = 5


class Resource(NamedTuple):
    """A resource with configs; an empty broker name stands for all brokers."""

    type: ResourceType
    name: str


class Change(NamedTuple):
    """Configs to set, and names of configs to set back to their defaults."""

    set: Mapping[str, str]
    unset: Sequence[str] = ()


async def describe_configs(
    cluster: Cluster,
    resource: Resource,
    names: Sequence[str] | None = None,
    *,
    with_texts: bool = False,
) -> list[DescribeConfigsResourceResult]:
    """The configs of a resource, sorted by name; KafkaError."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configuration_keys=None if names is None else list(names),
            )
        ],
        include_synonyms=True,
        include_documentation=with_texts,
    )
    answer = await cluster.ask(
        request, DescribeConfigsResponse, node=await _home(cluster, resource)
    )
    for result in answer.results:
        _raise_error(result.error_code, result.error_message, resource)
    return sorted(
        (row for result in answer.results for row in result.configs), key=lambda row: row.name
    )


async def alter_configs(
    cluster: Cluster, resource: Resource, change: Change, *, only_checks: bool = False
) -> None:
    """Change configs of a resource, all of them or none; KafkaError."""
    operations = [
        *((name, _SET, value) for name, value in change.set.items()),
        *((name, _DELETE, None) for name in change.unset),
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    AlterableConfig(name=name, config_operation=operation, value=value)
                    for name, operation, value in operations
                ],
            )
        ],
        validate_only=only_checks,
    )
    answer = await cluster.ask(
        request, IncrementalAlterConfigsResponse, node=await _home(cluster, resource)
    )
    for result in answer.responses:
        _raise_error(result.error_code, result.error_message, resource)


async def _home(cluster: Cluster, resource: Resource) -> int | None:
    """The broker to ask: configs of one broker are known to that broker only."""
    if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name:
        await cluster.peer(int(resource.name))
        return int(resource.name)
    return None


def _raise_error(number: int, message: str | None, resource: Resource) -> None:
    if number:
        what = f"{resource.type.name.lower().replace('_', ' ')} {resource.name}"
        raise KafkaError(ErrorCode(number), message or what)
