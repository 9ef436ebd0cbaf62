"""The rights for the APIs of transactions: WRITE on the transactional id, and a right to each topic
and group in the transaction.

Source: KafkaApis of Kafka.
"""

from kwire.errors import ErrorCode
from kwire.handlers.guards.authorization import FAILED, Authorization, split_topics
from kwire.handlers.lib.slices import give_way, pieces
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kwire.protocol.messages.list_transactions import TransactionState as ListedTransaction
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

BROKERS_SINCE = 4
"""Only brokers send AddPartitionsToTxn from this version on."""


_ID = ResourceType.TRANSACTIONAL_ID
_FAILED = FAILED[_ID]


async def init_producer_id(
    request: InitProducerIdRequest, rights: Authorization
) -> InitProducerIdResponse:
    """WRITE on the transactional id; without one, a right to write to any topic."""
    response: InitProducerIdResponse
    if request.transactional_id is not None:
        if rights.may(AclOperation.WRITE, _ID, request.transactional_id):
            response = await rights.serve(request)
            return response
        return InitProducerIdResponse(error_code=_FAILED, producer_epoch=-1)
    if rights.may_on_cluster(
        AclOperation.IDEMPOTENT_WRITE, tells_denied=False
    ) or rights.may_somewhere(AclOperation.WRITE, ResourceType.TOPIC):
        response = await rights.serve(request)
        return response
    return InitProducerIdResponse(error_code=FAILED[ResourceType.CLUSTER], producer_epoch=-1)


async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, rights: Authorization
) -> AddPartitionsToTxnResponse:
    """WRITE on the transactional id and each topic; CLUSTER_ACTION for the requests of brokers."""
    response: AddPartitionsToTxnResponse
    if rights.context.api_version >= BROKERS_SINCE:
        if rights.may_on_cluster(AclOperation.CLUSTER_ACTION):
            response = await rights.serve(request)
            return response
        return AddPartitionsToTxnResponse(error_code=FAILED[ResourceType.CLUSTER])
    topics = request.v3_and_below_topics
    if not rights.may(AclOperation.WRITE, _ID, request.v3_and_below_transactional_id):
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=await _not_added(topics, _FAILED, rights)
        )
    kept, others = await split_topics(topics, AclOperation.WRITE, rights)
    if not others:
        response = await rights.serve(request)
        return response
    failed = FAILED[ResourceType.TOPIC]
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            *await _not_added(others, failed, rights),
            *await _not_added(kept, ErrorCode.OPERATION_NOT_ATTEMPTED, rights),
        ]
    )


async def _not_added(
    topics: list[AddPartitionsToTxnTopic], code: ErrorCode, rights: Authorization
) -> list[AddPartitionsToTxnTopicResult]:
    def partition(index: int) -> AddPartitionsToTxnPartitionResult:
        return AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)

    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=await rights.make_each(partition, topic.partitions),
        )
        for topic in topics
    ]


async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, rights: Authorization
) -> AddOffsetsToTxnResponse:
    """WRITE on the transactional id, READ on the group."""
    if not rights.may(AclOperation.WRITE, _ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=_FAILED)
    if not rights.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=FAILED[ResourceType.GROUP])
    response: AddOffsetsToTxnResponse = await rights.serve(request)
    return response


async def end_txn(request: EndTxnRequest, rights: Authorization) -> EndTxnResponse:
    """WRITE on the transactional id."""
    if not rights.may(AclOperation.WRITE, _ID, request.transactional_id):
        return EndTxnResponse(error_code=_FAILED)
    response: EndTxnResponse = await rights.serve(request)
    return response


async def write_txn_markers(
    request: WriteTxnMarkersRequest, rights: Authorization
) -> WriteTxnMarkersResponse:
    """ALTER on the cluster, or CLUSTER_ACTION, as brokers have it."""
    if rights.may_on_cluster(AclOperation.ALTER, tells_denied=False) or rights.may_on_cluster(
        AclOperation.CLUSTER_ACTION
    ):
        response: WriteTxnMarkersResponse = await rights.serve(request)
        return response
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id, topics=await _not_written(marker.topics, rights)
            )
            for marker in request.markers
        ]
    )


async def _not_written(
    topics: list[WritableTxnMarkerTopic], rights: Authorization
) -> list[WritableTxnMarkerTopicResult]:
    def partition(index: int) -> WritableTxnMarkerPartitionResult:
        failed = FAILED[ResourceType.CLUSTER]
        return WritableTxnMarkerPartitionResult(partition_index=index, error_code=failed)

    await give_way(rights.context.work)
    return [
        WritableTxnMarkerTopicResult(
            name=topic.name, partitions=await rights.make_each(partition, topic.partition_indexes)
        )
        for topic in topics
    ]


async def describe_transactions(
    request: DescribeTransactionsRequest, rights: Authorization
) -> DescribeTransactionsResponse:
    """DESCRIBE on each transactional id; topics without DESCRIBE are left out."""
    ids = request.transactional_ids
    allowed = await rights.allowed_names(AclOperation.DESCRIBE, _ID, ids)
    request.transactional_ids, denied = await rights.split(allowed.__contains__, ids)
    response: DescribeTransactionsResponse = await rights.serve(request)
    states = response.transaction_states
    with_topics, _ = await rights.split(lambda state: bool(state.topics), states)
    for state in with_topics:
        names = [topic.topic for topic in state.topics]
        seen = await rights.allowed_names(
            AclOperation.DESCRIBE, ResourceType.TOPIC, names, tells_denied=False
        )
        state.topics = [topic for topic in state.topics if topic.topic in seen]
    response.transaction_states += await rights.make_each(
        lambda one: TransactionState(transactional_id=one, error_code=_FAILED), denied
    )
    return response


async def list_transactions(
    request: ListTransactionsRequest, rights: Authorization
) -> ListTransactionsResponse:
    """Those transactional ids with DESCRIBE."""
    response: ListTransactionsResponse = await rights.serve(request)
    states: list[ListedTransaction] = []
    for piece in pieces(response.transaction_states):
        await give_way(rights.context.work)
        ids = [state.transactional_id for state in piece]
        seen = await rights.allowed_names(AclOperation.DESCRIBE, _ID, ids, tells_denied=False)
        states += [state for state in piece if state.transactional_id in seen]
    response.transaction_states = states
    return response
