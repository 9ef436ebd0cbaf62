"""EndTxn (API key 26): commits or aborts a transaction.

Versions 0 to 5, flexible from 3. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: the response may carry the error PRODUCER_FENCED (KIP-588).
- 3: flexible encoding.
- 4: the response may carry the error TRANSACTION_ABORTABLE (KIP-890).
- 5: the response gains ``producer_id`` and ``producer_epoch``; every transaction raises the
  producer epoch (KIP-890).
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


class EndTxnRequest(Request, key=26, versions=(0, 5), flexible=3):
    """Commits or aborts a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Response, key=26, versions=(0, 5), flexible=3):
    """The answer to ``EndTxnRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(since=5, default=-1, ignorable=True)
    producer_epoch: int = int16(since=5, default=-1, ignorable=True)
