"""Heartbeat (API key 12): keeps a member of a classic group alive and tells it of rebalances.

Versions 0 to 4, flexible from 4. What they brought:

- 1: the response gains ``throttle_time_ms``.
- 2: quota delays come after the response (KIP-219).
- 3: the request gains ``group_instance_id``; static members (KIP-345).
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
    """Keeps a member of a classic group alive and tells it of rebalances."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)


class HeartbeatResponse(Response, key=12, versions=(0, 4), flexible=4):
    """The answer to ``HeartbeatRequest``."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
