"""ControllerRegistration (API key 70): registers a controller with the active controller.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    string,
    uint16,
    uuid,
)


class Listener(Nested):
    """An element of ``listeners`` in ``ControllerRegistrationRequest``."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class Feature(Nested):
    """An element of ``features`` in ``ControllerRegistrationRequest``."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class ControllerRegistrationRequest(Request, key=70, versions=(0, 0), flexible=0):
    """Registers a controller with the active controller."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)


class ControllerRegistrationResponse(Response, key=70, versions=(0, 0), flexible=0):
    """The answer to ``ControllerRegistrationRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
