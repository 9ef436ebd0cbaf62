"""CreateAcls (API key 30): creates access control entries.

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


class AclCreation(Nested):
    """An element of ``creations`` in ``CreateAclsRequest``."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Request, key=30, versions=(1, 3), flexible=2):
    """Creates access control entries."""

    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Nested):
    """An element of ``results`` in ``CreateAclsResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class CreateAclsResponse(Response, key=30, versions=(1, 3), flexible=2):
    """The answer to ``CreateAclsRequest``."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
