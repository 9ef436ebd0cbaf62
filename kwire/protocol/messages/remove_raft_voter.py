"""RemoveRaftVoter (API key 81): removes a voter from the metadata quorum.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Request,
    Response,
    int16,
    int32,
    string,
    uuid,
)


class RemoveRaftVoterRequest(Request, key=81, versions=(0, 0), flexible=0):
    """Removes a voter from the metadata quorum."""

    cluster_id: str | None = string(nullable=True)
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class RemoveRaftVoterResponse(Response, key=81, versions=(0, 0), flexible=0):
    """The answer to ``RemoveRaftVoterRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)
