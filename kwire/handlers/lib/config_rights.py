"""The right to see or alter configs, which depends on the resource that has them.

Source: ConfigHelper, KafkaApis.authorizeAlterConfigs of Kafka.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.handlers.lib.rights import CLUSTER, GROUP, TOPIC, Right, Serve, denied
from kwire.metadata.acls import AclOperation
from kwire.metadata.image import ConfigResourceType

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

PROTECTED_BY = {
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.GROUP: GROUP,
    ConfigResourceType.BROKER: CLUSTER,
    ConfigResourceType.BROKER_LOGGER: CLUSTER,
    ConfigResourceType.CLIENT_METRICS: CLUSTER,
}
"""The resource whose rights protect a config. The handlers refuse unknown types."""


def _is_one_of(types: set[ConfigResourceType], resource: Any) -> bool:
    return resource.resource_type in types


def each_config(operation: AclOperation) -> Right:
    """An operation on each topic and group whose configs a request names, or on the cluster."""

    async def serve(request: Any, rights: "Authorization", serve: Serve) -> Any:
        def may(resource: Any) -> bool:
            kind = PROTECTED_BY.get(resource.resource_type)
            if kind is None:
                return True
            if kind is CLUSTER:
                return rights.may_on_cluster(operation)
            return rights.may(operation, kind, resource.resource_name)

        request.resources, others = await rights.split(may, request.resources)
        response = await serve(request)
        for kind in (TOPIC, GROUP, CLUSTER):
            wanted = {type_ for type_, protector in PROTECTED_BY.items() if protector is kind}
            refused, _ = await rights.split(partial(_is_one_of, wanted), others)
            await rights.add_refused(response, request, "resources", refused, denied(kind))
        return response

    return Right(f"{operation.name} on each topic and group, on the cluster for all others", serve)
