"""DescribeAcls (API key 29): lists access control entries.

Versions 1 to 3, flexible from 2. Changes by version:

- 1: a pattern may be a prefix (KIP-290).
- 2: flexible encoding.
- 3: the resource type USER exists.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    string,
)


class DescribeAclsRequest(Request, key=29, versions=(1, 3), flexible=2):
    """Lists access control entries."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True)
    host_filter: str | None = string(nullable=True)
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Nested):
    """An element of ``acls`` in ``DescribeAclsResource``."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Nested):
    """An element of ``resources`` in ``DescribeAclsResponse``."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Response, key=29, versions=(1, 3), flexible=2):
    """The answer to ``DescribeAclsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
