"""ListTransactions: transactional ids by state, producer id and duration.

Behaviour: states that nobody knows are named in the answer. The duration (version 1) counts from
the start of the transaction, and every id without one is old.
"""

from collections.abc import Callable

from kwire.coordinator.transaction.coordinator import TransactionCoordinator
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


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    """List what every coordinator knows, filtered."""
    try:
        homes = context.broker.transactions.all_coordinators()
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    is_wanted = _filter(request, context)
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in _BY_TITLE],
        transaction_states=[
            TransactionState(
                transactional_id=known.transactional_id,
                producer_id=known.producer_id,
                transaction_state=known.state.title,
            )
            for home in homes
            for known in _all(home.coordinator)
            if is_wanted(known)
        ],
    )


def _all(coordinator: TransactionCoordinator) -> list[Transaction]:
    return list(coordinator.transactions.values())


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
