"""AddPartitionsToTxn: adds partitions to transactions, or verifies that they were added.

Behavior: if one partition doesn't exist, no partition is added, and the others are
OPERATION_NOT_ATTEMPTED. From version 4 on, brokers send the requests: one has several transactions,
and may only ask to verify. A verified partition that wasn't added is TRANSACTION_ABORTABLE. Before
version 2, the error is INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED.
"""

from typing import TYPE_CHECKING, Any

from kwire.coordinator.transaction.state import EPOCH_BUMP_SINCE, ProducerIdAndEpoch, TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import (
    CLUSTER_ACTION,
    FAILED,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Serve,
    once,
    right,
)
from kwire.handlers.lib.slices import give_way, pieces
from kwire.handlers.lib.transaction_errors import code_for_client
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.refusing import refusing_each

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BATCHED_SINCE = 4

_NOT_ADDED = ErrorCode.TRANSACTION_ABORTABLE

Results = dict[TopicPartition, ErrorCode]


async def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    """Add or verify the partitions of each transaction."""
    if context.api_version >= BATCHED_SINCE:
        results: list[AddPartitionsToTxnResult] = []
        for one in request.transactions:
            await give_way(context.work)
            topics = await _by_topic(await _results(one, context), context)
            results.append(
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id, topic_results=topics
                )
            )
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    topics = await _by_topic(await _results(only, context), context)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


async def _results(wanted: AddPartitionsToTxnTransaction, context: RequestContext) -> Results:
    """The error code of every partition of a transaction."""
    image = context.broker.image
    partitions: dict[TopicPartition, None] = {}
    missing: set[TopicPartition] = set()
    for topic in wanted.topics:
        for piece in pieces(topic.partitions):
            await give_way(context.work)
            named = [(topic.name, index) for index in piece]
            partitions.update(dict.fromkeys(named))
            missing.update(at for at in named if image.partition(*at) is None)
    if missing:
        unknown, others = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        return {at: unknown if at in missing else others for at in partitions}
    producer = ProducerIdAndEpoch(wanted.producer_id, wanted.producer_epoch)
    transactions = context.broker.transactions
    try:
        if wanted.verify_only:
            known = transactions.check_added(wanted.transactional_id, producer).partitions
            missing = partitions.keys() - known
            return {at: _NOT_ADDED if at in missing else ErrorCode.NONE for at in partitions}
        version = EPOCH_BUMP_SINCE if context.api_version >= BATCHED_SINCE else 0
        transactions.add_partitions(wanted.transactional_id, producer, partitions, version)
    except KafkaError as error:
        return dict.fromkeys(partitions, code_for_client(error, context.api_version))
    return dict.fromkeys(partitions, ErrorCode.NONE)


async def _by_topic(
    results: Results, context: RequestContext
) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), code in results.items():
        await give_way(context.work)
        if name not in topics:
            topics[name] = AddPartitionsToTxnTopicResult(name=name)
        topics[name].results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        )
    return list(topics.values())


@right("WRITE on the transactional id and each topic; CLUSTER_ACTION for the requests of brokers")
async def _write(request: AddPartitionsToTxnRequest, rights: "Authorization", serve: Serve) -> Any:
    if rights.context.api_version >= BATCHED_SINCE:
        return await once(CLUSTER_ACTION).serve(request, rights, serve)
    topics, code = request.v3_and_below_topics, FAILED[TRANSACTIONAL_ID]
    if not rights.may(WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=await _not_added(topics, code, rights)
        )
    kept, others = await rights.split_by_name(topics, WRITE, TOPIC, lambda topic: topic.name)
    if not others:
        return await serve(request)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            *await _not_added(others, FAILED[TOPIC], rights),
            *await _not_added(kept, ErrorCode.OPERATION_NOT_ATTEMPTED, rights),
        ]
    )


async def _not_added(
    topics: list[AddPartitionsToTxnTopic], code: ErrorCode, rights: "Authorization"
) -> list[AddPartitionsToTxnTopicResult]:
    kinds = AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult
    error = KafkaError(code)
    refused = refusing_each(topics, *kinds, error, rights.context.api_version)
    made: list[AddPartitionsToTxnTopicResult] = await rights.made(refused, error)
    return made


RIGHTS = (_write,)
