"""AddOffsetsToTxn: adds the offsets of a group to a transaction.

Behavior: the group's partition of ``__consumer_offsets`` is added to the transaction. Before
version 2, the error is INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED.
"""

from kwire.coordinator.transaction.state import ProducerIdAndEpoch
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import GROUP, READ, TRANSACTIONAL_ID, WRITE, once
from kwire.handlers.lib.transaction_errors import code_for_client
from kwire.handlers.lib.waiting import later
from kwire.metadata.image import OFFSETS_TOPIC
from kwire.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

RIGHTS = (
    once(WRITE, of=TRANSACTIONAL_ID),
    once(READ, of=GROUP),
)


async def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    """Add the partition of the group."""
    broker = context.broker
    try:
        if not broker.groups.has_topic:
            await later(broker.groups.ensure_topic)
        broker.transactions.add_partitions(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            [(OFFSETS_TOPIC, broker.groups.partition_index(request.group_id))],
            client_version=0,
        )
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=code_for_client(error, context.api_version))
    return AddOffsetsToTxnResponse()
