"""JoinGroup (API key 11): joins a classic group and waits for its next generation.

Versions 0 to 9, flexible from 6. Changes by version:

- 1: the request gains ``rebalance_timeout_ms``.
- 2: the response gains ``throttle_time_ms``.
- 3: the broker sends the response before it throttles the client (KIP-219).
- 4: a new member gets MEMBER_ID_REQUIRED and its member id, and has to join again (KIP-394).
- 5: the request gains ``group_instance_id``; the response gains
  ``JoinGroupResponseMember.group_instance_id``; groups may have static members (KIP-345).
- 6: flexible encoding.
- 7: the response gains ``protocol_type``; the response may have null ``protocol_name``; KIP-559.
- 8: the request gains ``reason``; KIP-800.
- 9: the response gains ``skip_assignment``; KIP-814.
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


class JoinGroupRequestProtocol(Nested):
    """An element of ``protocols`` in ``JoinGroupRequest``."""

    name: str = string()
    metadata: bytes = binary()


class JoinGroupRequest(Request, key=11, versions=(0, 9), flexible=6):
    """Joins a classic group and waits for its next generation."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=True, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable=True, default=None, ignorable=True)


class JoinGroupResponseMember(Nested):
    """An element of ``members`` in ``JoinGroupResponse``."""

    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    metadata: bytes = binary()


class JoinGroupResponse(Response, key=11, versions=(0, 9), flexible=6):
    """The answer to ``JoinGroupRequest``."""

    throttle_time_ms: int = int32(since=2, ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(nullable_since=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
