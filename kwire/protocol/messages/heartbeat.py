"""Heartbeat (API key 12): keeps the session of a classic group's member, and tells of rebalances.

Versions 0 to 4, flexible from 4. Changes by version:

- 1: the response gains ``throttle_time_ms``.
- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: the request gains ``group_instance_id``; groups may have static members (KIP-345).
- 4: flexible encoding.
"""

from kwire.protocol.types import (
    Request,
    Response,
    int16,
    int32,
    string,
)


class HeartbeatRequest(Request, key=12, versions=(0, 4), flexible=4):
    """Keeps the session of a classic group's member, and tells of rebalances."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)


class HeartbeatResponse(Response, key=12, versions=(0, 4), flexible=4):
    """The answer to ``HeartbeatRequest``."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
