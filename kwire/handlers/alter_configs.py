"""AlterConfigs: replaces the configs of resources; a config that isn't named is no longer set.

Behaviour: each resource has its own result. A resource that is named twice is refused each time.
"""

from kwire.handlers import unfollowed
from kwire.handlers.api_versions import takes_telemetry
from kwire.handlers.context import RequestContext
from kwire.handlers.resources import UNITS, UNITS_TO_WARN, alter_all
from kwire.handlers.slices import pieces
from kwire.metadata.changes import Change
from kwire.metadata.config_control import replace_configs, resource_type
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """Alter every resource whose change is allowed."""

    def decide(resource: AlterConfigsResource, image: MetadataImage) -> list[Change]:
        target = (resource_type(resource.resource_type), resource.resource_name)
        configs = [(config.name, config.value) for config in resource.configs]
        return replace_configs(image, target, configs, context.broker.settings)

    outcomes = await alter_all(request.resources, decide, context, request.validate_only)
    for resource, outcome in [] if request.validate_only else outcomes:
        if context.work.spend(UNITS_TO_WARN):
            await context.work.next_slice()
        if outcome.code:
            continue
        target = (resource_type(resource.resource_type), resource.resource_name)
        unfollowed.warn(
            target,
            [config.name for config in resource.configs],
            takes_telemetry=takes_telemetry(context.broker),
        )
    responses: list[AlterConfigsResourceResponse] = []
    for piece in pieces(outcomes):
        if context.work.spend(UNITS * len(piece)):
            await context.work.next_slice()
        responses += [
            AlterConfigsResourceResponse(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=outcome.code,
                error_message=outcome.message,
            )
            for resource, outcome in piece
        ]
    return AlterConfigsResponse(responses=responses)
