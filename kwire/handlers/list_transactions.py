"""ListTransactions: transactional ids by state, producer id, duration and pattern.

Behavior: the answer names each unknown state of the filter once. The duration (version 1) counts
from the start of the transaction; an id without a start passes this filter. The pattern (version
2, KIP-1152) has to match the whole id; an invalid pattern is INVALID_REGULAR_EXPRESSION. A thread
matches the ids, a piece at a time.
"""

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.coordinator.consumer.regexes import Question, answer
from kwire.coordinator.transaction.state import Transaction
from kwire.coordinator.transaction.state import TransactionState as State
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.regexes import compile_ahead
from kwire.handlers.lib.rights import DESCRIBE, TRANSACTIONAL_ID, Serve, right
from kwire.handlers.lib.slices import distinct, give_way, pieces
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

_BY_TITLE = {state.title: state for state in State}

BYTES = 40


async def handle(
    request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    """List the ids of every coordinator, filtered."""
    try:
        homes = context.broker.transactions.all_coordinators()
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    work = context.work
    names = await distinct(request.state_filters, work)
    producer_ids = await distinct(request.producer_id_filters, work)
    is_wanted = _filter(request, names, producer_ids, context)
    pattern = request.transactional_id_pattern
    if pattern:
        try:
            await compile_ahead(pattern, context)
        except KafkaError as error:
            return ListTransactionsResponse(error_code=error.code)
    states = []
    for home in homes:
        for piece in pieces(list(home.coordinator.transactions.values())):
            await give_way(work)
            wanted = [one for one in piece if is_wanted(one)]
            if pattern and wanted:
                wanted = await later(partial(_matching, pattern, wanted, context))
            work.answer(sum(BYTES + len(one.transactional_id) for one in wanted))
            states += [
                TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state.title,
                )
                for one in wanted
            ]
    unknown: list[str] = []
    for part in pieces(list(names)):
        await give_way(work)
        unknown += [name for name in part if name not in _BY_TITLE]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states)


async def _matching(
    pattern: str, wanted: list[Transaction], context: RequestContext
) -> list[Transaction]:
    """The transactions whose id matches; the thread for requests' expressions finds them."""
    question = Question(pattern, frozenset(one.transactional_id for one in wanted))
    thread = context.broker.threads.regexes
    matching = await thread.run(context.work, lambda asked, between: answer([asked]), question)
    return [one for one in wanted if one.transactional_id in matching[pattern]]


def _filter(
    request: ListTransactionsRequest,
    names: Mapping[str, None],
    producer_ids: Container[int],
    context: RequestContext,
) -> Callable[[Transaction], bool]:
    """A test of whether a transaction passes the filters of the request."""
    states = {state for title, state in _BY_TITLE.items() if title in names}
    started_before_ms = context.broker.now_ms() - request.duration_filter

    def is_wanted(transaction: Transaction) -> bool:
        return (
            (not request.state_filters or transaction.state in states)
            and (not request.producer_id_filters or transaction.producer_id in producer_ids)
            and (request.duration_filter < 0 or transaction.start_ms < started_before_ms)
        )

    return is_wanted


@right("those transactional ids with DESCRIBE")
async def _leave_ids_out(
    request: ListTransactionsRequest, rights: "Authorization", serve: Serve
) -> Any:
    response: ListTransactionsResponse = await serve(request)
    where = "transaction_states", DESCRIBE, TRANSACTIONAL_ID, "transactional_id"
    await rights.keep_seen(response, *where)
    return response


RIGHTS = (_leave_ids_out,)
