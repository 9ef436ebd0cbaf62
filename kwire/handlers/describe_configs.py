"""DescribeConfigs: the configs of topics, brokers and groups, with their sources.

Behavior: each resource has its own error. A resource that is named twice is answered twice. A list
of keys that is null or empty means all configs. If the client asks for documentation (version 3), a
config has kwire's text about it, or null if there is no text. The text of a logger is always empty,
as in Kafka.
"""

from collections.abc import Hashable, Iterable, Mapping

from kwire.broker.configs import (
    ConfigEntry,
    broker_configs,
    client_metrics_configs,
    default_broker_configs,
    group_configs,
    topic_configs,
)
from kwire.broker.loggers import logger_configs
from kwire.config.documentation import documentation
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.config_rights import each_config
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE_CONFIGS
from kwire.handlers.lib.slices import distinct, give_way
from kwire.metadata.config_checks import SCOPES
from kwire.metadata.config_control import check_resource
from kwire.metadata.controller import check_topic_name
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

BYTES = 50

_WITH_DEFAULTS = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
)

Described = dict[tuple[Hashable, ...], tuple[list[DescribeConfigsResourceResult], int]]
"""The configs that this request has already described, each with its approximate size in bytes."""


RIGHTS = (each_config(DESCRIBE_CONFIGS),)


async def handle(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    """Describe every resource that the request names."""
    described: Described = {}
    results: list[DescribeConfigsResult] = []
    context.work.doomed.append(results)  # also if the response becomes too large
    for resource in request.resources:
        await give_way(context.work)
        results.append(await _describe(resource, request, described, context))
    return DescribeConfigsResponse(results=results)


async def _describe(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    described: Described,
    context: RequestContext,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message=None,
    )
    try:
        entries = _entries(resource, context)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message or None
        return result
    work = context.work
    keys = await distinct(resource.configuration_keys or [], work)
    key = _key(resource, keys, context)
    if key not in described:
        await give_way(work)
        texts = _texts(ConfigResourceType(resource.resource_type), request)
        configs = [
            _result(entry, request, texts) for entry in entries if not keys or entry.name in keys
        ]
        described[key] = configs, sum(map(_size_bytes, configs))
    result.configs, size_bytes = described[key]
    work.answer(BYTES + size_bytes)
    return result


def _size_bytes(config: DescribeConfigsResourceResult) -> int:
    return BYTES * (1 + len(config.synonyms)) + len(config.documentation or "")


def _texts(kind: ConfigResourceType, request: DescribeConfigsRequest) -> Mapping[str, str] | None:
    """The texts of a kind of resource by the config's name; None if all its texts are empty."""
    if kind is ConfigResourceType.BROKER_LOGGER:
        return None
    is_asked = request.include_documentation and kind in SCOPES
    return documentation(SCOPES[kind]) if is_asked else {}


def _key(
    resource: DescribeConfigsResource, keys: Iterable[str], context: RequestContext
) -> tuple[Hashable, ...]:
    """A key that is the same for resources with equal configs, like topics without configs of
    their own.
    """
    kind, name = resource.resource_type, resource.resource_name
    is_shared = kind in _WITH_DEFAULTS and (kind, name) not in context.broker.image.configs
    return kind, None if is_shared else name, *keys


def _entries(resource: DescribeConfigsResource, context: RequestContext) -> Iterable[ConfigEntry]:
    broker = context.broker
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            check_topic_name(name)
            check_resource(broker.image, (ConfigResourceType.TOPIC, name))
            return topic_configs(broker, broker.image.config(ConfigResourceType.TOPIC, name))
        case ConfigResourceType.BROKER if not name:
            return default_broker_configs(broker)
        case ConfigResourceType.BROKER:
            _check_broker(name, f"{broker.node_id} or empty string, but", context)
            return broker_configs(broker)
        case ConfigResourceType.BROKER_LOGGER:
            _check_broker(name, f"{broker.node_id} but", context)
            return logger_configs()
        case ConfigResourceType.GROUP:
            check_resource(broker.image, (ConfigResourceType.GROUP, name))
            return group_configs(broker, broker.image.config(ConfigResourceType.GROUP, name))
        case ConfigResourceType.CLIENT_METRICS:
            kind = ConfigResourceType.CLIENT_METRICS
            check_resource(broker.image, (kind, name))
            return client_metrics_configs(broker.image.config(kind, name))
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
    )


def _check_broker(name: str, expected: str, context: RequestContext) -> None:
    """Raise KafkaError (INVALID_REQUEST) unless ``name`` is this broker's id.

    ``expected`` is the text of Kafka's ConfigHelper about the expected value.
    """
    if not name.isdigit():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != context.broker.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {expected} received {name}",
        )


def _result(
    entry: ConfigEntry, request: DescribeConfigsRequest, texts: Mapping[str, str] | None
) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms
        ],
        config_type=entry.type_number,
        documentation="" if texts is None else texts.get(entry.name),
    )
