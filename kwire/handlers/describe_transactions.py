"""DescribeTransactions: the state of transactional ids, and their transactions' partitions."""

from typing import TYPE_CHECKING, Any

from kwire.coordinator.transaction.state import Transaction
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, TOPIC, TRANSACTIONAL_ID, Serve, each, right
from kwire.handlers.lib.slices import give_way
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 50


async def handle(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    """Answer every transactional id; a repeated id gets the same answer again."""
    work = context.work
    described: dict[str, TransactionState] = {}
    states = []
    for name in request.transactional_ids:
        await give_way(work)
        state = described.get(name)
        if state is None:
            described[name] = state = _describe(name, context)
        work.answer(BYTES + sum(BYTES + 4 * len(topic.partitions) for topic in state.topics))
        states.append(state)
    return DescribeTransactionsResponse(transaction_states=states)


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


def _topics(transaction: Transaction) -> list[TopicData]:
    topics: dict[str, TopicData] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, TopicData(topic=topic)).partitions.append(index)
    return list(topics.values())


@right("topics without DESCRIBE are left out")
async def _leave_topics_out(
    request: DescribeTransactionsRequest, rights: "Authorization", serve: Serve
) -> Any:
    response: DescribeTransactionsResponse = await serve(request)
    with_topics, _ = await rights.split(lambda one: bool(one.topics), response.transaction_states)
    for state in with_topics:
        await rights.keep_seen(state, "topics", DESCRIBE, TOPIC, "topic")
    return response


RIGHTS = (each("transactional_ids", DESCRIBE, TRANSACTIONAL_ID), _leave_topics_out)
