"""SyncGroup (API key 14): hands the leader's assignment to every member of a classic group.

Versions 0 to 5, flexible from 4. Changes by version:

- 1: the response gains ``throttle_time_ms``.
- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: the request gains ``group_instance_id``; groups may have static members (KIP-345).
- 4: flexible encoding.
- 5: the request and the response gain ``protocol_type`` and ``protocol_name``; KIP-559.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    binary,
    int16,
    int32,
    string,
)


class SyncGroupRequestAssignment(Nested):
    """An element of ``assignments`` in ``SyncGroupRequest``."""

    member_id: str = string()
    assignment: bytes = binary()


class SyncGroupRequest(Request, key=14, versions=(0, 5), flexible=4):
    """Hands the leader's assignment to every member of a classic group."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    protocol_type: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Response, key=14, versions=(0, 5), flexible=4):
    """The answer to ``SyncGroupRequest``."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    assignment: bytes = binary()
