"""InitProducerId: a producer id for an idempotent producer, or the next epoch of one it has.

Behaviour: ids come from blocks that are taken durably, so none is given twice. A transactional id
is refused with an error that clients give up on at once: transactions are not served yet.
"""

from kwire.errors import ErrorCode
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Give an id that nobody has had."""
    if request.transactional_id is not None:
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not request.transactional_id:
            refused = ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=refused, producer_epoch=-1)
    return InitProducerIdResponse(
        producer_id=await context.broker.next_producer_id(), producer_epoch=0
    )
