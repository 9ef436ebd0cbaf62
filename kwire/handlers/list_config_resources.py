"""ListConfigResources: which resources have configs.

Behaviour: version 0 was ListClientMetricsResources, and knows those alone; from version 1 on no
types mean all of them.
"""

from kwire.errors import ErrorCode
from kwire.handlers.context import RequestContext
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """List the resources of the types asked for."""
    known = [kind.value for kind in ConfigResourceType]
    wanted = request.resource_types or known
    if context.api_version == 0:
        wanted = [ConfigResourceType.CLIENT_METRICS]
    if any(kind not in known for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in wanted
            for name in _names(kind, context)
        ]
    )


def _names(kind: int, context: RequestContext) -> list[str]:
    image = context.broker.image
    match kind:
        case ConfigResourceType.TOPIC:
            return list(image.topics_by_name)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(node_id) for node_id in image.brokers]
    return [name for resource_type, name in image.configs if resource_type == kind]
