"""AddPartitionsToTxn: adds partitions to transactions, or verifies that they were added.

Behaviour: if one partition doesn't exist none is added; the others are OPERATION_NOT_ATTEMPTED.
Versions 4 and later hold several transactions and may ask only to verify; they come from brokers.
A partition that wasn't added is TRANSACTION_ABORTABLE to them. Before version 2 PRODUCER_FENCED is
INVALID_PRODUCER_EPOCH.
"""

from kwire.coordinator.transaction.state import EPOCH_BUMP_SINCE, ProducerIdAndEpoch, TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.transaction_errors import told
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BATCHED_SINCE = 4

_NOT_ADDED = ErrorCode.TRANSACTION_ABORTABLE

Results = dict[TopicPartition, ErrorCode]


def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    """Add or verify, each transaction by itself."""
    if context.api_version >= BATCHED_SINCE:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=_by_topic(_results(one, context)),
                )
                for one in request.transactions
            ]
        )
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_by_topic(_results(only, context))
    )


def _results(wanted: AddPartitionsToTxnTransaction, context: RequestContext) -> Results:
    """What becomes of every partition of a transaction."""
    image = context.broker.image
    partitions = [(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    missing = {at for at in partitions if image.partition(*at) is None}
    if missing:
        unknown, others = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        return {at: unknown if at in missing else others for at in partitions}
    producer = ProducerIdAndEpoch(wanted.producer_id, wanted.producer_epoch)
    transactions = context.broker.transactions
    try:
        if wanted.verify_only:
            known = transactions.check_added(wanted.transactional_id, producer).partitions
            missing = set(partitions) - known
            return {at: _NOT_ADDED if at in missing else ErrorCode.NONE for at in partitions}
        version = EPOCH_BUMP_SINCE if context.api_version >= BATCHED_SINCE else 0
        transactions.add_partitions(wanted.transactional_id, producer, partitions, version)
    except KafkaError as error:
        return dict.fromkeys(partitions, told(error, context.api_version))
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _by_topic(results: Results) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), code in results.items():
        topic = topics.setdefault(name, AddPartitionsToTxnTopicResult(name=name))
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        )
    return list(topics.values())
