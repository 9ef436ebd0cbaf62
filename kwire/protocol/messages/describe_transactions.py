"""DescribeTransactions (API key 65): shows the state of transactions.

Version 0, flexible.
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


class DescribeTransactionsRequest(Request, key=65, versions=(0, 0), flexible=0):
    """Shows the state of transactions."""

    transactional_ids: list[str] = array(string)


class TopicData(Nested):
    """An element of ``topics`` in ``TransactionState``."""

    topic: str = string()
    partitions: list[int] = array(int32)


class TransactionState(Nested):
    """An element of ``transaction_states`` in ``DescribeTransactionsResponse``."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


class DescribeTransactionsResponse(Response, key=65, versions=(0, 0), flexible=0):
    """The answer to ``DescribeTransactionsRequest``."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
