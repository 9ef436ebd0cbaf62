"""AddRaftVoter (API key 80): adds a voter to the metadata quorum.

Versions 0 to 1, flexible. Changes by version:

- 1: the request gains ``ack_when_committed``.
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
    """An element of ``listeners`` in ``AddRaftVoterRequest``."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Request, key=80, versions=(0, 1), flexible=0):
    """Adds a voter to the metadata quorum."""

    cluster_id: str | None = string(nullable=True)
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean(since=1, default=True)


class AddRaftVoterResponse(Response, key=80, versions=(0, 1), flexible=0):
    """The answer to ``AddRaftVoterRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)
