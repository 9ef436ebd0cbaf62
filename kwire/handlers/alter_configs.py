"""AlterConfigs: give resources exactly these configs; what isn't named is no longer set.

Behaviour: each resource has an answer of its own; one that is named twice is refused each time.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers import unfollowed
from kwire.handlers.context import RequestContext
from kwire.metadata.config_control import replace_configs, resource_type
from kwire.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
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
    return AlterConfigsResponse(responses=responses)


async def _alter(
    resource: AlterConfigsResource, context: RequestContext, *, validate_only: bool
) -> None:
    broker = context.broker
    target = (resource_type(resource.resource_type), resource.resource_name)
    configs = [(config.name, config.value) for config in resource.configs]
    if validate_only:
        replace_configs(broker.image, target, configs, broker.settings)
        return
    await context.commit(lambda image: replace_configs(image, target, configs, broker.settings))
    unfollowed.warn(target, [name for name, _ in configs])
