"""UpdateRaftVoter (API key 82): changes the endpoints of a voter of the metadata quorum.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    string,
    struct,
    uint16,
    uuid,
)


class Listener(Nested):
    """An element of ``listeners`` in ``UpdateRaftVoterRequest``."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Nested):
    """The ``kraft_version_feature`` in ``UpdateRaftVoterRequest``."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class UpdateRaftVoterRequest(Request, key=82, versions=(0, 0), flexible=0):
    """Changes the endpoints of a voter of the metadata quorum."""

    cluster_id: str | None = string(nullable=True)
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class CurrentLeader(Nested):
    """The ``current_leader`` in ``UpdateRaftVoterResponse``."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string()
    port: int = int32()


class UpdateRaftVoterResponse(Response, key=82, versions=(0, 0), flexible=0):
    """The answer to ``UpdateRaftVoterRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: CurrentLeader | None = struct(CurrentLeader, tag=0)
