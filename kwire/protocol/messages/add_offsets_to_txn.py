"""AddOffsetsToTxn (API key 25): adds the offsets of a group to a transaction.

Versions 0 to 4, flexible from 3. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: the response may carry the error PRODUCER_FENCED (KIP-588).
- 3: flexible encoding.
- 4: the response may carry the error TRANSACTION_ABORTABLE (KIP-890).
"""

from kwire.protocol.types import (
    Request,
    Response,
    int16,
    int32,
    int64,
    string,
)


class AddOffsetsToTxnRequest(Request, key=25, versions=(0, 4), flexible=3):
    """Adds the offsets of a group to a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, key=25, versions=(0, 4), flexible=3):
    """The answer to ``AddOffsetsToTxnRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
