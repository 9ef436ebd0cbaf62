"""The rights for the APIs of the whole cluster: a right to the cluster, or to a config's resource.

Source: KafkaApis, ControllerApis, AclApis, ConfigHelper of Kafka.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from kwire.handlers.guards.authorization import FAILED, Authorization, Guard
from kwire.handlers.lib.slices import give_way, pieces
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kwire.protocol.messages.announce_member import AnnounceMemberResponse
from kwire.protocol.messages.create_acls import AclCreationResult, CreateAclsResponse
from kwire.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from kwire.protocol.messages.describe_acls import DescribeAclsResponse
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kwire.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from kwire.protocol.messages.describe_quorum import DescribeQuorumResponse
from kwire.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kwire.protocol.messages.explain_group import ExplainGroupResponse
from kwire.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.protocol.messages.list_config_resources import ListConfigResourcesResponse
from kwire.protocol.messages.update_features import UpdateFeaturesResponse

ELECTION_ERROR_SINCE = 1

_FAILED = FAILED[ResourceType.CLUSTER]

OF_CONFIGS = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
}
"""The resource whose rights protect a config, by the config's type. The handlers refuse unknown
types."""

_Refusal: TypeAlias = tuple[Any, int, str]
"""A resource that the client may not see or change, the error's code and its text."""


def needs(operation: AclOperation, refuse: Callable[[Any], Any]) -> Guard:
    """The guard of an API that needs one operation on the cluster."""

    async def guard(request: Any, rights: Authorization) -> Any:
        if rights.may_on_cluster(operation):
            return await rights.serve(request)
        return refuse(request)

    guard.__doc__ = f"{operation.name} on the cluster."
    return guard


describe_acls = needs(
    AclOperation.DESCRIBE,
    lambda _: DescribeAclsResponse(
        error_code=_FAILED, error_message="Cluster authorization failed."
    ),
)
create_acls = needs(
    AclOperation.ALTER,
    lambda request: CreateAclsResponse(
        results=[
            AclCreationResult(error_code=_FAILED, error_message="Cluster authorization failed.")
        ]
        * len(request.creations)
    ),
)
delete_acls = needs(
    AclOperation.ALTER,
    lambda request: DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=_FAILED, error_message="Cluster authorization failed."
            )
        ]
        * len(request.filters)
    ),
)


async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, rights: Authorization
) -> AlterReplicaLogDirsResponse:
    """ALTER on the cluster."""
    if rights.may_on_cluster(AclOperation.ALTER):
        response: AlterReplicaLogDirsResponse = await rights.serve(request)
        return response

    def partition(index: int) -> AlterReplicaLogDirPartitionResult:
        return AlterReplicaLogDirPartitionResult(partition_index=index, error_code=_FAILED)

    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=await rights.make_each(partition, topic.partitions),
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


describe_log_dirs = needs(
    AclOperation.DESCRIBE, lambda _: DescribeLogDirsResponse(error_code=_FAILED)
)
describe_quorum = needs(
    AclOperation.DESCRIBE,
    lambda _: DescribeQuorumResponse(error_code=_FAILED, error_message=None),
)
update_features = needs(
    AclOperation.ALTER,
    lambda _: UpdateFeaturesResponse(
        error_code=_FAILED, error_message="Cluster authorization failed."
    ),
)
list_config_resources = needs(
    AclOperation.DESCRIBE_CONFIGS, lambda _: ListConfigResourcesResponse(error_code=_FAILED)
)
announce_member = needs(
    AclOperation.CLUSTER_ACTION, lambda _: AnnounceMemberResponse(error_code=_FAILED)
)


async def explain_group(request: Any, rights: Authorization) -> ExplainGroupResponse:
    """DESCRIBE on the group: the API is kwire's own, and tells no more than DescribeGroups."""
    if not rights.may(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return ExplainGroupResponse(error_code=FAILED[ResourceType.GROUP])
    response: ExplainGroupResponse = await rights.serve(request)
    return response


async def elect_leaders(
    request: ElectLeadersRequest, rights: Authorization
) -> ElectLeadersResponse:
    """ALTER on the cluster."""
    if rights.may_on_cluster(AclOperation.ALTER):
        response: ElectLeadersResponse = await rights.serve(request)
        return response

    def partition(index: int) -> PartitionResult:
        return PartitionResult(partition_id=index, error_code=_FAILED, error_message=None)

    return ElectLeadersResponse(
        error_code=_FAILED if rights.context.api_version >= ELECTION_ERROR_SINCE else 0,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=await rights.make_each(partition, topic.partitions),
            )
            for topic in request.topic_partitions or ()
        ],
    )


async def _configs_apart(
    resources: list[Any], operation: AclOperation, rights: Authorization
) -> tuple[list[Any], list[_Refusal]]:
    """The resources whose configs the client may see or change, and the others with their error."""
    kept: list[Any] = []
    others: list[_Refusal] = []
    for piece in pieces(resources):
        await give_way(rights.context.work)
        for resource in piece:
            kind = OF_CONFIGS.get(resource.resource_type)
            if kind is None:
                kept.append(resource)
                continue
            if kind is ResourceType.CLUSTER:
                is_allowed = rights.may_on_cluster(operation)
            else:
                is_allowed = rights.may(operation, kind, resource.resource_name)
            if is_allowed:
                kept.append(resource)
            else:
                message = f"{kind.name.capitalize()} authorization failed."
                others.append((resource, FAILED[kind], message))
    return kept, others


async def describe_configs(
    request: DescribeConfigsRequest, rights: Authorization
) -> DescribeConfigsResponse:
    """DESCRIBE_CONFIGS on each topic and group, on the cluster for all others."""
    request.resources, others = await _configs_apart(
        request.resources, AclOperation.DESCRIBE_CONFIGS, rights
    )
    response: DescribeConfigsResponse = await rights.serve(request)
    response.results += await _refused(DescribeConfigsResult, others, rights)
    return response


async def _refused(
    result: Callable[..., Any], others: list[_Refusal], rights: Authorization
) -> list[Any]:
    def make(refusal: _Refusal) -> Any:
        resource, code, message = refusal
        return result(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    rights.context.work.doomed.append(others)
    return await rights.make_each(make, others)


async def alter_configs(
    request: AlterConfigsRequest, rights: Authorization
) -> AlterConfigsResponse:
    """ALTER_CONFIGS on each topic and group, on the cluster for all others."""
    request.resources, others = await _configs_apart(
        request.resources, AclOperation.ALTER_CONFIGS, rights
    )
    response: AlterConfigsResponse = await rights.serve(request)
    response.responses += await _refused(AlterConfigsResourceResponse, others, rights)
    return response


async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, rights: Authorization
) -> IncrementalAlterConfigsResponse:
    """ALTER_CONFIGS on each topic and group, on the cluster for all others."""
    request.resources, others = await _configs_apart(
        request.resources, AclOperation.ALTER_CONFIGS, rights
    )
    response: IncrementalAlterConfigsResponse = await rights.serve(request)
    response.responses += await _refused(IncrementalResourceResponse, others, rights)
    return response
