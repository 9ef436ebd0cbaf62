"""ListTransactions (API key 66): lists the transactions that a broker coordinates.

Versions 0 to 2, flexible. Changes by version:

- 1: the request gains ``duration_filter``; KIP-994.
- 2: the request gains ``transactional_id_pattern``; KIP-1152.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    int64,
    string,
)


class ListTransactionsRequest(Request, key=66, versions=(0, 2), flexible=0):
    """Lists the transactions that a broker coordinates."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64(since=1, default=-1)
    transactional_id_pattern: str | None = string(since=2, nullable=True, default=None)


class TransactionState(Nested):
    """An element of ``transaction_states`` in ``ListTransactionsResponse``."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, key=66, versions=(0, 2), flexible=0):
    """The answer to ``ListTransactionsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
