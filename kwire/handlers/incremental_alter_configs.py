"""IncrementalAlterConfigs: set, delete, append to or subtract from single configs (KIP-339).

Behaviour: each resource has an answer of its own; one that is named twice is refused each time.
The levels of this broker's loggers are changed here too (KIP-412).
"""

from kwire.broker.loggers import alter_loggers
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers import unfollowed
from kwire.handlers.context import RequestContext
from kwire.metadata.config_control import Alteration, Operation, alter_configs, resource_type
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Alter every resource that may be."""
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
    broker = context.broker
    alterations = [
        Alteration(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        if resource.resource_name != str(broker.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {broker.node_id}, "
                f"but received {resource.resource_name}",
            )
        alter_loggers(alterations, validate_only=validate_only)
        return
    target = (resource_type(resource.resource_type), resource.resource_name)
    if validate_only:
        alter_configs(broker.image, target, alterations, broker.settings)
        return
    await context.commit(lambda image: alter_configs(image, target, alterations, broker.settings))
    unfollowed.warn(target, [a.name for a in alterations if a.operation != Operation.DELETE])
