"""BrokerRegistration (API key 62): registers a broker with the controller.

Versions 0 to 4, flexible. Changes by version:

- 1: the request gains ``is_migrating_zk_broker``; KIP-866.
- 2: the request gains ``log_dirs``; KIP-858.
- 3: the request gains ``previous_broker_epoch``; KIP-966.
- 4: features may have 0 as their lowest version.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class Listener(Nested):
    """An element of ``listeners`` in ``BrokerRegistrationRequest``."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class Feature(Nested):
    """An element of ``features`` in ``BrokerRegistrationRequest``."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class BrokerRegistrationRequest(Request, key=62, versions=(0, 4), flexible=0):
    """Registers a broker with the controller."""

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(nullable=True)
    is_migrating_zk_broker: bool = boolean(since=1)
    log_dirs: list[bytes] = array(uuid, since=2, ignorable=True)
    previous_broker_epoch: int = int64(since=3, default=-1, ignorable=True)


class BrokerRegistrationResponse(Response, key=62, versions=(0, 4), flexible=0):
    """The answer to ``BrokerRegistrationRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
