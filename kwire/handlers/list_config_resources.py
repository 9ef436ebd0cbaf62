"""ListConfigResources: which resources have configs.

Behavior: version 0 was ListClientMetricsResources, and lists only those resources. From version 1
on, no types mean all types.
"""

from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE_CONFIGS, once
from kwire.handlers.lib.slices import distinct, give_way, pieces
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

BYTES = 10


RIGHTS = (once(DESCRIBE_CONFIGS),)


async def handle(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """List the resources of the types that the request names."""
    work = context.work
    known = {kind.value for kind in ConfigResourceType}
    wanted = set(await distinct(request.resource_types, work)) or known
    if context.api_version == 0:
        wanted = {ConfigResourceType.CLIENT_METRICS.value}
    if not wanted <= known:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    resources: list[ConfigResource] = []
    for kind in sorted(wanted):
        for piece in pieces(_names(kind, context)):
            await give_way(work)
            work.answer(sum(BYTES + len(name) for name in piece))
            resources += [ConfigResource(resource_name=name, resource_type=kind) for name in piece]
    return ListConfigResourcesResponse(config_resources=resources)


def _names(kind: int, context: RequestContext) -> list[str]:
    image = context.broker.image
    match kind:
        case ConfigResourceType.TOPIC:
            return list(image.topics_by_name)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(node_id) for node_id in image.brokers]
    return [name for resource_type, name in image.configs if resource_type == kind]
