"""LeaveGroup (API key 13): removes members from a classic group.

Versions 0 to 5, flexible from 4. Changes by version:

- 1: the response gains ``throttle_time_ms``.
- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: the request loses ``member_id``; the request and the response gain ``members``; a request may
  name several members (KIP-345).
- 4: flexible encoding.
- 5: the request gains ``MemberIdentity.reason``; KIP-800.
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


class MemberIdentity(Nested):
    """An element of ``members`` in ``LeaveGroupRequest``."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable=True, default=None)
    reason: str | None = string(since=5, nullable=True, default=None, ignorable=True)


class LeaveGroupRequest(Request, key=13, versions=(0, 5), flexible=4):
    """Removes members from a classic group."""

    group_id: str = string()
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


class MemberResponse(Nested):
    """An element of ``members`` in ``LeaveGroupResponse``."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable=True)
    error_code: int = int16()


class LeaveGroupResponse(Response, key=13, versions=(0, 5), flexible=4):
    """The answer to ``LeaveGroupRequest``."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)
