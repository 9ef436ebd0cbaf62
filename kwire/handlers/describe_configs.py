"""DescribeConfigs: the configs of topics, brokers and groups, with their sources.

Behaviour: an error belongs to the resource it is about. A list of keys that is null or empty means
all of them. Where documentation is asked for (version 3) a config has the text that kwire has of
it, null where it has none. A logger's is empty, asked for or not, as in Kafka.
"""

from collections.abc import Iterable, Mapping

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
from kwire.handlers.context import RequestContext
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


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """Describe every resource asked for."""
    distinct = {(r.resource_type, r.resource_name): r for r in request.resources}
    return DescribeConfigsResponse(
        results=[_describe(resource, request, context) for resource in distinct.values()]
    )


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
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
    keys = resource.configuration_keys
    kind = ConfigResourceType(resource.resource_type)
    texts: Mapping[str, str] = {}
    if request.include_documentation and kind in SCOPES:
        texts = documentation(SCOPES[kind])
    result.configs = [
        _result(entry, request, texts) for entry in entries if not keys or entry.name in keys
    ]
    if kind is ConfigResourceType.BROKER_LOGGER:
        for config in result.configs:
            config.documentation = ""
    return result


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
            _check_broker(name, context)
            return broker_configs(broker)
        case ConfigResourceType.BROKER_LOGGER:
            _check_broker(name, context)
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


def _check_broker(name: str, context: RequestContext) -> None:
    """Raise KafkaError (INVALID_REQUEST) unless ``name`` is this broker's id."""
    expected = context.broker.node_id
    if not name.isdigit():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != expected:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {expected}, but received {name}",
        )


def _result(
    entry: ConfigEntry, request: DescribeConfigsRequest, texts: Mapping[str, str]
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
        documentation=texts.get(entry.name),
    )
