"""DeleteAcls (API key 31): deletes access control entries.

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


class DeleteAclsFilter(Nested):
    """An element of ``filters`` in ``DeleteAclsRequest``."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True)
    host_filter: str | None = string(nullable=True)
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Request, key=31, versions=(1, 3), flexible=2):
    """Deletes access control entries."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Nested):
    """An element of ``matching_acls`` in ``DeleteAclsFilterResult``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Nested):
    """An element of ``filter_results`` in ``DeleteAclsResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Response, key=31, versions=(1, 3), flexible=2):
    """The answer to ``DeleteAclsRequest``."""

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
