"""AddPartitionsToTxn (API key 24): adds partitions to transactions, or verifies that they belong
to them.

Versions 0 to 5, flexible from 3. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: the response may carry the error PRODUCER_FENCED (KIP-588).
- 3: flexible encoding.
- 4: the request gains ``transactions``; the request loses ``v3_and_below_transactional_id``,
  ``v3_and_below_producer_id``, ``v3_and_below_producer_epoch`` and ``v3_and_below_topics``; the
  response gains ``error_code`` and ``results_by_transaction``; the response loses
  ``results_by_topic_v3_and_below``; brokers may name several transactions, or only verify
  partitions (KIP-890).
- 5: the response may carry the error TRANSACTION_ABORTABLE (KIP-890).
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
)


class AddPartitionsToTxnTopic(Nested):
    """An element of ``topics`` or ``v3_and_below_topics``."""

    name: str = string()
    partitions: list[int] = array(int32)


class AddPartitionsToTxnTransaction(Nested):
    """An element of ``transactions`` in ``AddPartitionsToTxnRequest``."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


class AddPartitionsToTxnRequest(Request, key=24, versions=(0, 5), flexible=3):
    """Adds partitions to transactions, or verifies that they belong to them."""

    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, since=4
    )
    v3_and_below_transactional_id: str = string(until=3)
    v3_and_below_producer_id: int = int64(until=3)
    v3_and_below_producer_epoch: int = int16(until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, until=3)


class AddPartitionsToTxnPartitionResult(Nested):
    """An element of ``results_by_partition`` in ``AddPartitionsToTxnTopicResult``."""

    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Nested):
    """An element of ``results_by_topic_v3_and_below`` or ``topic_results``."""

    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Nested):
    """An element of ``results_by_transaction`` in ``AddPartitionsToTxnResponse``."""

    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


class AddPartitionsToTxnResponse(Response, key=24, versions=(0, 5), flexible=3):
    """The answer to ``AddPartitionsToTxnRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=4, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, since=4
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, until=3
    )
