"""EndTxn: commits or aborts a producer's transaction.

Behavior: the answer is sent when the decision about the end is durable. The markers are written
right after it. From version 5 on, the end bumps the epoch, and the answer carries the next epoch.
If the epochs of the producer id are used up, the answer carries another id (KIP-890). Before
version 2, the error is INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED.
"""

from kwire.coordinator.transaction.coordinator import ProducerIdNeeded
from kwire.coordinator.transaction.state import (
    EPOCH_BUMP_SINCE,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    Transaction,
)
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import TRANSACTIONAL_ID, WRITE, once
from kwire.handlers.lib.transaction_errors import code_for_client
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

BUMPS_SINCE = 5


RIGHTS = (once(WRITE, of=TRANSACTIONAL_ID),)


async def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    """End the transaction."""
    try:
        ended = await _end_transaction(request, context)
    except KafkaError as error:
        return EndTxnResponse(
            error_code=code_for_client(error, context.api_version), producer_epoch=-1
        )
    if context.api_version < BUMPS_SINCE:
        return EndTxnResponse()
    if ended.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(producer_id=ended.next_producer_id, producer_epoch=0)
    return EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)


async def _end_transaction(request: EndTxnRequest, context: RequestContext) -> Transaction:
    """Decide and write the end; return the state after that."""
    broker = context.broker
    transactional_id = request.transactional_id
    bumps = context.api_version >= BUMPS_SINCE
    new_id: int | None = None
    while True:
        home = broker.transactions.of_producer(transactional_id)
        try:
            effects = home.coordinator.end_transaction(
                transactional_id,
                ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
                new_id,
                broker.now_ms(),
                committed=request.committed,
                client_version=EPOCH_BUMP_SINCE if bumps else 0,
            )
        except ProducerIdNeeded:
            new_id = await later(broker.producer_ids.next)
            continue
        broker.transactions.carry_out(home, effects)
        return home.coordinator.transactions[transactional_id]
