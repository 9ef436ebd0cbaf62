"""AlterConfigs: give resources exactly these configs; what isn't named is no longer set."""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.config_control import replace_configs, resource_type
from kwire.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """Alter every resource, each with an answer of its own."""
    responses = []
    for resource in request.resources:
        response = AlterConfigsResourceResponse(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message=None,
        )
        try:
            await _alter(resource, context, validate_only=request.validate_only)
        except KafkaError as error:
            response.error_code, response.error_message = error.code, error.message or None
        responses.append(response)
    return AlterConfigsResponse(responses=responses)


async def _alter(
    resource: AlterConfigsResource, context: RequestContext, *, validate_only: bool
) -> None:
    target = (resource_type(resource.resource_type), resource.resource_name)
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate config names: {', '.join(names)}")
    configs = {config.name: config.value for config in resource.configs}
    if validate_only:
        replace_configs(context.broker.image, target, configs)
    else:
        await context.broker.commit(lambda image: replace_configs(image, target, configs))
