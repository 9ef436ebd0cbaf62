"""DescribeGroups (API key 15): shows the state and the members of classic groups.

Versions 0 to 6, flexible from 5. Changes by version:

- 1: the response gains ``throttle_time_ms``.
- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: the request gains ``include_authorized_operations``; the response gains
  ``DescribedGroup.authorized_operations``; KIP-430.
- 4: the response gains ``DescribedGroupMember.group_instance_id``; groups may have static members
  (KIP-345).
- 5: flexible encoding.
- 6: the response gains ``DescribedGroup.error_message``; the response may carry the error
  GROUP_ID_NOT_FOUND, with a message (KIP-1043).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    binary,
    boolean,
    int16,
    int32,
    string,
)


class DescribeGroupsRequest(Request, key=15, versions=(0, 6), flexible=5):
    """Shows the state and the members of classic groups."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean(since=3)


class DescribedGroupMember(Nested):
    """An element of ``members`` in ``DescribedGroup``."""

    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable=True, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


class DescribedGroup(Nested):
    """An element of ``groups`` in ``DescribeGroupsResponse``."""

    error_code: int = int16()
    error_message: str | None = string(since=6, nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-2147483648)


class DescribeGroupsResponse(Response, key=15, versions=(0, 6), flexible=5):
    """The answer to ``DescribeGroupsRequest``."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
