"""UnregisterController (API key 94): removes a controller from the cluster.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Request,
    Response,
    int16,
    int32,
    string,
)


class UnregisterControllerRequest(Request, key=94, versions=(0, 0), flexible=0):
    """Removes a controller from the cluster."""

    controller_id: int = int32()


class UnregisterControllerResponse(Response, key=94, versions=(0, 0), flexible=0):
    """The answer to ``UnregisterControllerRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
