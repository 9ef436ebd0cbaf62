"""DeleteGroups (API key 42): deletes groups without members.

Versions 0 to 3, flexible from 2. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: flexible encoding.
- 3: the response gains ``DeletableGroupResult.error_message``.
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


class DeleteGroupsRequest(Request, key=42, versions=(0, 3), flexible=2):
    """Deletes groups without members."""

    groups_names: list[str] = array(string)


class DeletableGroupResult(Nested):
    """An element of ``results`` in ``DeleteGroupsResponse``."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(since=3, nullable=True, default=None, ignorable=True)


class DeleteGroupsResponse(Response, key=42, versions=(0, 3), flexible=2):
    """The answer to ``DeleteGroupsRequest``."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
