"""InitProducerId (API key 22): gives a producer its id and epoch.

Versions 0 to 6, flexible from 2. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: flexible encoding.
- 3: the request gains ``producer_id`` and ``producer_epoch``; KIP-360.
- 4: the response may carry the error PRODUCER_FENCED (KIP-588).
- 5: the response may carry the error TRANSACTION_ABORTABLE (KIP-890).
- 6: the request gains ``enable_2pc`` and ``keep_prepared_txn``; the response gains
  ``ongoing_txn_producer_id`` and ``ongoing_txn_producer_epoch``; transactions may use two-phase
  commit (KIP-939); the version isn't stable, so kwire never advertises it.
"""

from kwire.protocol.types import (
    Request,
    Response,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class InitProducerIdRequest(Request, key=22, versions=(0, 6), flexible=2, latest_unstable=True):
    """Gives a producer its id and epoch."""

    transactional_id: str | None = string(nullable=True)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)
    enable_2pc: bool = boolean(since=6)
    keep_prepared_txn: bool = boolean(since=6)


class InitProducerIdResponse(Response, key=22, versions=(0, 6), flexible=2, latest_unstable=True):
    """The answer to ``InitProducerIdRequest``."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(since=6, default=-1)
    ongoing_txn_producer_epoch: int = int16(since=6, default=-1)
