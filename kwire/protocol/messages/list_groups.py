"""ListGroups (API key 16): lists the groups that a broker coordinates.

Versions 0 to 5, flexible from 3. Changes by version:

- 1: the response gains ``throttle_time_ms``.
- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: flexible encoding.
- 4: the request gains ``states_filter``; the response gains ``ListedGroup.group_state``; KIP-518.
- 5: the request gains ``types_filter``; the response gains ``ListedGroup.group_type``; KIP-848.
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


class ListGroupsRequest(Request, key=16, versions=(0, 5), flexible=3):
    """Lists the groups that a broker coordinates."""

    states_filter: list[str] = array(string, since=4)
    types_filter: list[str] = array(string, since=5)


class ListedGroup(Nested):
    """An element of ``groups`` in ``ListGroupsResponse``."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4, ignorable=True)
    group_type: str = string(since=5, ignorable=True)


class ListGroupsResponse(Response, key=16, versions=(0, 5), flexible=3):
    """The answer to ``ListGroupsRequest``."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
