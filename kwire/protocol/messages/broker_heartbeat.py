"""BrokerHeartbeat (API key 63): tells the controller that a broker is alive.

Versions 0 to 2, flexible. Changes by version:

- 1: the request gains ``offline_log_dirs``; KIP-858.
- 2: the request gains ``cordoned_log_dirs``.
"""

from kwire.protocol.types import (
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    int64,
    uuid,
)


class BrokerHeartbeatRequest(Request, key=63, versions=(0, 2), flexible=0):
    """Tells the controller that a broker is alive."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(uuid, since=1, tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, since=2, nullable=True, default=None, tag=1)


class BrokerHeartbeatResponse(Response, key=63, versions=(0, 2), flexible=0):
    """The answer to ``BrokerHeartbeatRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()
