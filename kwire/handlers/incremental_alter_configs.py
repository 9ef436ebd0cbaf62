"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single configs (KIP-339).

Behavior: each resource has its own result. A resource that is named twice is refused each time.
This API also changes the levels of this broker's loggers (KIP-412).
"""

from kwire.broker.loggers import alter_loggers
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.config_rights import each_config
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.key_changes import checked
from kwire.handlers.lib.resources import alter_all, responses, warn_all
from kwire.handlers.lib.rights import ALTER_CONFIGS
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.changes import Change
from kwire.metadata.config_checks import check_number
from kwire.metadata.config_control import Alteration, Operation, alter_configs, resource_type
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

RIGHTS = (each_config(ALTER_CONFIGS),)


@in_task
async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Alter every resource whose change is allowed."""
    validate_only = request.validate_only

    def decide(resource: AlterConfigsResource, image: MetadataImage) -> list[Change]:
        alterations = _alterations(resource)
        target = (resource_type(resource.resource_type), resource.resource_name)
        changes = alter_configs(image, target, alterations, context.broker.settings)
        return checked(changes, image, context.broker)

    def alter_own(resource: AlterConfigsResource) -> bool:
        if resource.resource_type != ConfigResourceType.BROKER_LOGGER:
            return False
        _alter_loggers(resource, context, validate_only=validate_only)
        return True

    outcomes = await alter_all(request.resources, decide, context, validate_only, alter_own)
    if not validate_only:
        await warn_all(outcomes, _set_names, context)
    return IncrementalAlterConfigsResponse(
        responses=await responses(outcomes, AlterConfigsResourceResponse, context)
    )


def _set_names(resource: AlterConfigsResource) -> list[str]:
    """The configs that the request sets; the levels of loggers are no configs."""
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        return []
    return [c.name for c in resource.configs if c.config_operation != Operation.DELETE]


def _alterations(resource: AlterConfigsResource) -> list[Alteration]:
    check_number(len(resource.configs))
    return [
        Alteration(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]


def _alter_loggers(
    resource: AlterConfigsResource, context: RequestContext, *, validate_only: bool
) -> None:
    """Change the levels of loggers, which belong to this process; KafkaError."""
    node_id = context.broker.node_id
    if resource.resource_name != str(node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id}, but received {resource.resource_name}",
        )
    alter_loggers(_alterations(resource), validate_only=validate_only)
