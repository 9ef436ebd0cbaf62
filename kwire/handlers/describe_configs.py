"""DescribeConfigs: the configs of topics, brokers and groups, with their sources.

Behaviour: an error belongs to the resource it is about. Loggers of the broker can't be configured
by this API in kwire: the resource is known, and has no configs. No documentation is given.
"""

from collections.abc import Iterable

from kwire.broker.configs import (
    TYPE_NUMBERS,
    ConfigEntry,
    broker_configs,
    default_broker_configs,
    group_configs,
    topic_configs,
)
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
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


async def handle(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    """Describe every resource asked for."""
    return DescribeConfigsResponse(
        results=[_describe(resource, request, context) for resource in request.resources]
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
    result.configs = [
        _result(entry, request) for entry in entries if keys is None or entry.setting.name in keys
    ]
    return result


def _entries(resource: DescribeConfigsResource, context: RequestContext) -> Iterable[ConfigEntry]:
    broker = context.broker
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            check_topic_name(name)
            check_resource(broker.image, (ConfigResourceType.TOPIC, name))
            return topic_configs(broker, name)
        case ConfigResourceType.BROKER if not name:
            return default_broker_configs(broker)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            if name != str(broker.node_id):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {broker.node_id}, but received {name}",
                )
            is_logger = resource.resource_type == ConfigResourceType.BROKER_LOGGER
            return () if is_logger else broker_configs(broker)
        case ConfigResourceType.GROUP:
            check_resource(broker.image, (ConfigResourceType.GROUP, name))
            return group_configs(broker, name)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
    )


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.setting.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.setting.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms
        ],
        config_type=TYPE_NUMBERS[entry.setting.type],
        documentation=None,
    )
