"""ListTransactions: transactional ids by state, producer id, duration and pattern.

Behaviour: states that nobody knows are named in the answer. The duration (version 1) counts from
the start of the transaction, and every id without one is old. The pattern (version 2, KIP-1152) has
to match the whole id; one that is none is INVALID_REGULAR_EXPRESSION. Many ids are matched in a
thread.
"""

from collections.abc import Callable

from kwire.budget.threads import Kind
from kwire.coordinator.consumer.regexes import QUICK_COST, Question, answer, check_regex
from kwire.coordinator.transaction.state import Transaction
from kwire.coordinator.transaction.state import TransactionState as State
from kwire.errors import KafkaError
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_BY_TITLE = {state.title: state for state in State}


async def handle(
    request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    """List what every coordinator knows, filtered."""
    try:
        homes = context.broker.transactions.all_coordinators()
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    is_wanted = _filter(request, context)
    known = [one for home in homes for one in home.coordinator.transactions.values()]
    wanted = [one for one in known if is_wanted(one)]
    if request.transactional_id_pattern:
        ids = frozenset(one.transactional_id for one in wanted)
        try:
            threads = context.broker.threads.computing
            matching = await _matching(request.transactional_id_pattern, ids, threads)
        except KafkaError as error:
            return ListTransactionsResponse(error_code=error.code)
        wanted = [one for one in wanted if one.transactional_id in matching]
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in _BY_TITLE],
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.title,
            )
            for one in wanted
        ],
    )


async def _matching(pattern: str, ids: frozenset[str], threads: Kind) -> frozenset[str]:
    """The ids that a pattern matches; KafkaError (INVALID_REGULAR_EXPRESSION) if it is none."""
    check_regex(pattern)
    question = Question(pattern, ids)
    if question.cost <= QUICK_COST:
        return answer([question])[pattern]
    return (await threads.run(answer, [question]))[pattern]


def _filter(
    request: ListTransactionsRequest, context: RequestContext
) -> Callable[[Transaction], bool]:
    """Which ids are wanted."""
    states = {_BY_TITLE.get(name) for name in request.state_filters}
    producer_ids = set(request.producer_id_filters)
    started_before_ms = context.broker.now_ms() - request.duration_filter

    def is_wanted(known: Transaction) -> bool:
        return (
            (not states or known.state in states)
            and (not producer_ids or known.producer_id in producer_ids)
            and (request.duration_filter < 0 or known.start_ms < started_before_ms)
        )

    return is_wanted
