"""InitProducerId: a producer id for an idempotent producer; id and epoch for a transactional one.

Behavior: ids come from blocks that are taken durably, so no id is given twice. A transactional
producer fences the earlier producer with its id. An open transaction is aborted first, and the
producer repeats its request until that is done (CONCURRENT_TRANSACTIONS). A producer that names its
id and epoch continues if no other producer has begun meanwhile. Before version 4, the error is
INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED.

Skipped: version 6, two-phase commit (KIP-939), which isn't stable in Kafka 4.3.
"""

from typing import TYPE_CHECKING, Any

from kwire.coordinator.transaction.coordinator import ProducerIdNeeded
from kwire.coordinator.transaction.state import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
)
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CLUSTER, TOPIC, TRANSACTIONAL_ID, WRITE, Serve, denied, right
from kwire.handlers.lib.transaction_errors import code_for_client
from kwire.handlers.lib.waiting import later
from kwire.metadata.acls import AclOperation
from kwire.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

PRODUCER_FENCED_SINCE = 4


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Give an unused producer id, or the next epoch of a transactional id."""
    try:
        expected = _expected(request)
        if request.transactional_id is None:
            given = ProducerIdAndEpoch(await later(context.broker.producer_ids.next), 0)
        else:
            given = await _init(request, request.transactional_id, expected, context)
    except KafkaError as error:
        code = code_for_client(error, context.api_version, PRODUCER_FENCED_SINCE)
        return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
    return InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.epoch)


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    """The id and epoch that the producer names; KafkaError if it names only one of them."""
    has_id = request.producer_id != NO_PRODUCER_ID
    if has_id != (request.producer_epoch != NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if has_id else None


async def _init(
    request: InitProducerIdRequest,
    transactional_id: str,
    expected: ProducerIdAndEpoch | None,
    context: RequestContext,
) -> ProducerIdAndEpoch:
    broker = context.broker
    new_id: int | None = None
    while True:
        home = broker.transactions.of_producer(transactional_id)
        try:
            decision = home.coordinator.init_producer_id(
                transactional_id,
                request.transaction_timeout_ms,
                expected,
                new_id,
                broker.now_ms(),
            )
        except ProducerIdNeeded:
            new_id = await later(broker.producer_ids.next)
            continue
        broker.transactions.carry_out(home, decision.effects)
        if decision.error:
            raise KafkaError(decision.error)
        begun = home.coordinator.transactions[transactional_id]
        return ProducerIdAndEpoch(begun.producer_id, begun.producer_epoch)


@right("WRITE on the transactional id, or IDEMPOTENT_WRITE on the cluster or WRITE on any topic")
async def _write(request: InitProducerIdRequest, rights: "Authorization", serve: Serve) -> Any:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        kind, is_allowed = TRANSACTIONAL_ID, rights.may(WRITE, TRANSACTIONAL_ID, transactional_id)
    else:
        kind = CLUSTER
        is_allowed = rights.may_on_cluster(
            AclOperation.IDEMPOTENT_WRITE, tells_denied=False
        ) or rights.may_somewhere(WRITE, TOPIC)
    if is_allowed:
        return await serve(request)
    response = await rights.refuse(request, denied(kind))
    response.producer_epoch = -1
    return response


RIGHTS = (_write,)
