"""ACLs: describe, create, delete. The numbers of types and operations are the protocol's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.errors import error_of
from kwire.errors import KafkaError
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kwire.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

ANY = 1
MATCH = 2
"""The pattern type of a filter for all ACLs that concern a resource with this name."""


class Acl(NamedTuple):
    """One ACL, with the protocol's numbers."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """Which ACLs are meant; None and ANY match everything."""

    resource_type: int = ANY
    name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY


async def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The ACLs that a filter matches, sorted; KafkaError."""
    answer = await cluster.ask(DescribeAclsRequest(**_filter(wanted)), DescribeAclsResponse)
    error = error_of(answer.error_code, answer.error_message, "the ACLs")
    if error is not None:
        raise error
    return sorted(
        Acl(
            found.resource_type,
            found.resource_name,
            found.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for found in answer.resources
        for acl in found.acls
    )


async def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> list[KafkaError | None]:
    """Create ACLs; the error of each, None after success."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )
    answer = await cluster.ask(request, CreateAclsResponse)
    return [error_of(row.error_code, row.error_message, "the ACL") for row in answer.results]


async def delete_acls(cluster: Cluster, acls: Sequence[Acl]) -> list[KafkaError | None]:
    """Delete exactly these ACLs; the error of each, None after success."""
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter(acl)) for acl in acls])
    answer = await cluster.ask(request, DeleteAclsResponse)
    return [error_of(row.error_code, row.error_message, "the ACL") for row in answer.filter_results]


def _filter(wanted: Acl | AclFilter) -> dict[str, Any]:
    """What a request names of the ACLs that it is about."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }
