"""AlterConfigs: replaces the configs of resources; a config that isn't named is no longer set.

Behavior: each resource has its own result. A resource that is named twice is refused each time.
"""

from kwire.handlers.lib.config_rights import each_config
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.key_changes import checked
from kwire.handlers.lib.resources import alter_all, responses, warn_all
from kwire.handlers.lib.rights import ALTER_CONFIGS
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.changes import Change
from kwire.metadata.config_control import replace_configs, resource_type
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

RIGHTS = (each_config(ALTER_CONFIGS),)


@in_task
async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """Alter every resource whose change is allowed."""

    def decide(resource: AlterConfigsResource, image: MetadataImage) -> list[Change]:
        target = (resource_type(resource.resource_type), resource.resource_name)
        configs = [(config.name, config.value) for config in resource.configs]
        changes = replace_configs(image, target, configs, context.broker.settings)
        return checked(changes, image, context.broker)

    outcomes = await alter_all(request.resources, decide, context, request.validate_only)
    if not request.validate_only:
        await warn_all(outcomes, _set_names, context)
    return AlterConfigsResponse(
        responses=await responses(outcomes, AlterConfigsResourceResponse, context)
    )


def _set_names(resource: AlterConfigsResource) -> list[str]:
    return [config.name for config in resource.configs]
