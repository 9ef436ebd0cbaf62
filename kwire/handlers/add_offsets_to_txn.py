"""AddOffsetsToTxn: adds the offsets of a group to a transaction.

Behaviour: the transaction takes in the partition of ``__consumer_offsets`` in which the group
lives. Before version 2 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH.
"""

from kwire.broker.internal_topics import OFFSETS_TOPIC
from kwire.coordinator.transaction.state import ProducerIdAndEpoch
from kwire.errors import KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.transaction_errors import told
from kwire.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)


async def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    """Add the partition of the group."""
    broker = context.broker
    try:
        await broker.groups.ensure_topic()
        broker.transactions.add_partitions(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            [(OFFSETS_TOPIC, broker.groups.partition_index(request.group_id))],
            client_version=0,
        )
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=told(error, context.api_version))
    return AddOffsetsToTxnResponse()
