"""DescribeTransactions: the state of transactional ids, and the partitions that are in it."""

from kwire.coordinator.transaction.state import Transaction
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    """Answer every transactional id."""
    return DescribeTransactionsResponse(
        transaction_states=[_describe(name, context) for name in request.transactional_ids]
    )


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = context.broker.transactions.of(transactional_id).coordinator.get(transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.title,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=_topics(known),
    )


def _topics(known: Transaction) -> list[TopicData]:
    topics: dict[str, TopicData] = {}
    for topic, index in sorted(known.partitions):
        topics.setdefault(topic, TopicData(topic=topic)).partitions.append(index)
    return list(topics.values())
