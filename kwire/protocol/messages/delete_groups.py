"""DeleteGroups (API key 42): deletes groups without members.

Versions 0 to 2, flexible from 2. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: flexible encoding.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    string,
)


class DeleteGroupsRequest(Request, key=42, versions=(0, 2), flexible=2):
    """Deletes groups without members."""

    groups_names: list[str] = array(string)


class DeletableGroupResult(Nested):
    """An element of ``results`` in ``DeleteGroupsResponse``."""

    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Response, key=42, versions=(0, 2), flexible=2):
    """The answer to ``DeleteGroupsRequest``."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
