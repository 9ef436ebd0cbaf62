"""IncrementalAlterConfigs: set, delete, append to or subtract from single configs (KIP-339)."""

from kwire.broker.configs import broker_configs, group_configs, topic_configs
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.config_control import Alteration, alter_configs, resource_type
from kwire.metadata.image import ConfigResource, ConfigResourceType
from kwire.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Alter every resource, each with an answer of its own."""
    targets = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    responses = []
    for resource, target in zip(request.resources, targets, strict=True):
        response = AlterConfigsResourceResponse(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message=None,
        )
        try:
            if targets.count(target) > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            await _alter(resource, context, validate_only=request.validate_only)
        except KafkaError as error:
            response.error_code, response.error_message = error.code, error.message or None
        responses.append(response)
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(
    resource: AlterConfigsResource, context: RequestContext, *, validate_only: bool
) -> None:
    target = (resource_type(resource.resource_type), resource.resource_name)
    alterations = [
        Alteration(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]
    effective = _effective(target, context)
    if validate_only:
        alter_configs(context.broker.image, target, alterations, effective)
    else:
        await context.broker.commit(
            lambda image: alter_configs(image, target, alterations, effective)
        )


def _effective(target: ConfigResource, context: RequestContext) -> dict[str, str | None]:
    """The values in force, from which APPEND and SUBTRACT count."""
    kind, name = target
    match kind:
        case ConfigResourceType.TOPIC:
            entries = topic_configs(context.broker, name)
        case ConfigResourceType.BROKER:
            entries = broker_configs(context.broker)
        case _:
            entries = group_configs(context.broker, name)
    return {entry.setting.name: entry.value for entry in entries}
