"""AllocateProducerIds (API key 67): gives a broker a block of producer ids.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Request,
    Response,
    int16,
    int32,
    int64,
)


class AllocateProducerIdsRequest(Request, key=67, versions=(0, 0), flexible=0):
    """Gives a broker a block of producer ids."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Response, key=67, versions=(0, 0), flexible=0):
    """The answer to ``AllocateProducerIdsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
