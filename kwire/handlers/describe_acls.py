"""DescribeAcls: the access control entries that a filter matches, by resource.

Behavior: without an authorizer the response is SECURITY_DISABLED. A filter with the number UNKNOWN
(0) ends the connection, and one with a number that stands for nothing matches nothing, as in Kafka.
"""

from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, once
from kwire.handlers.lib.slices import give_way, pieces
from kwire.metadata.acls import AclFilter
from kwire.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kwire.protocol.wire import MalformedRequest

BYTES = 40


RIGHTS = (once(DESCRIBE),)


async def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """List the entries that match."""
    wanted = acl_filter(
        (request.resource_type_filter, request.resource_name_filter, request.pattern_type_filter),
        (
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        ),
    )
    if context.broker.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for piece in pieces(list(context.broker.image.acls)):
        await give_way(context.work)
        for acl in filter(wanted.matches, piece):
            context.work.answer(BYTES + len(acl.name) + len(acl.principal))
            pattern = acl.resource_type, acl.name, acl.pattern_type
            if pattern not in resources:
                resources[pattern] = DescribeAclsResource(
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    pattern_type=acl.pattern_type,
                )
            resources[pattern].acls.append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
            )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


def acl_filter(
    resource: tuple[int, str | None, int], entry: tuple[str | None, str | None, int, int]
) -> AclFilter:
    """The filter of a request: type, name, pattern type, principal, host and so on.

    Raises MalformedRequest for the number UNKNOWN.
    """
    resource_type, name, pattern_type = resource
    wanted = AclFilter(resource_type, name, pattern_type, *entry)
    check_numbers(wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)
    return wanted


def check_numbers(*numbers: int) -> None:
    """Raise MalformedRequest for the number UNKNOWN, which Kafka's requests don't allow."""
    if 0 in numbers:
        raise MalformedRequest("a type, an operation or a permission is UNKNOWN")
