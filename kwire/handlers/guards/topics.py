"""The rights for the APIs of topics: WRITE, READ, DESCRIBE, DELETE, ALTER or CREATE on each topic.

The answer for a topic that the client may not see is the same whether or not the topic exists. A
topic id is different: the answer shows whether it exists, because ids aren't secret in Kafka
either.

Source: KafkaApis, ControllerApis, DescribeTopicPartitionsRequestHandler of Kafka.
"""

from collections.abc import Container
from typing import Any

from kwire.handlers.guards.authorization import FAILED, Authorization, refused, split_topics
from kwire.handlers.lib.slices import distinct, give_way, pieces
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kwire.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.protocol.types import ZERO_UUID

PRODUCE_BY_ID_SINCE = 13
DELETE_BY_ID_SINCE = 6
CONFIGS_SINCE = 5

_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_TRANSACTIONAL = 0x10
"""A batch's format, the second byte of its attributes, and the bit of a transaction there."""

_FAILED = FAILED[ResourceType.TOPIC]


async def produce(request: ProduceRequest, rights: Authorization) -> ProduceResponse | None:
    """WRITE on each topic; with records of a transaction, WRITE on its transactional id too."""
    if await _is_transactional(request, rights) and not (
        request.transactional_id is not None
        and rights.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    ):
        if not request.acks:
            raise refused(ResourceType.TRANSACTIONAL_ID)
        code = FAILED[ResourceType.TRANSACTIONAL_ID]
        return ProduceResponse(responses=await _unwritten(request.topic_data, code, rights))
    by_id = rights.context.api_version >= PRODUCE_BY_ID_SINCE
    kept, others = await split_topics(request.topic_data, AclOperation.WRITE, rights, by_id=by_id)
    request.topic_data = kept
    response: ProduceResponse | None = await rights.serve(request)
    if others and not request.acks:
        raise refused(ResourceType.TOPIC)  # with acks=0, the end of the connection is the error
    if response is not None:
        response.responses += await _unwritten(others, _FAILED, rights)
    return response


async def _is_transactional(request: ProduceRequest, rights: Authorization) -> bool:
    """Whether a partition's first batch belongs to a transaction."""
    for topic in request.topic_data:
        for piece in pieces(topic.partition_data):
            if any(_of_transaction(one) for one in piece):
                return True
            await give_way(rights.context.work)
    return False


def _of_transaction(data: PartitionProduceData) -> bool:
    records = data.records
    if not isinstance(records, bytes | bytearray | memoryview) or len(records) <= _ATTRIBUTES_AT:
        return False
    return records[_MAGIC_AT] == 2 and bool(records[_ATTRIBUTES_AT] & _TRANSACTIONAL)


async def _unwritten(
    topics: list[TopicProduceData], code: int, rights: Authorization
) -> list[TopicProduceResponse]:
    def partition(one: PartitionProduceData) -> PartitionProduceResponse:
        return PartitionProduceResponse(index=one.index, error_code=code, base_offset=-1)

    return [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=await rights.make_each(partition, topic.partition_data),
        )
        for topic in topics
    ]


async def fetch(request: FetchRequest, rights: Authorization) -> Any:
    """READ on each topic for clients, which the handler checks; CLUSTER_ACTION for brokers.

    A fetch session also has topics of earlier requests, so the guard can't check them.
    """
    replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
    if replica_id < 0 or rights.may_on_cluster(AclOperation.CLUSTER_ACTION):
        return await rights.serve(request)

    def partition(one: FetchPartition) -> PartitionData:
        return PartitionData(
            partition_index=one.partition, error_code=_FAILED, high_watermark=-1, records=b""
        )

    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=await rights.make_each(partition, topic.partitions),
            )
            for topic in request.topics
        ]
    )


async def list_offsets(request: ListOffsetsRequest, rights: Authorization) -> ListOffsetsResponse:
    """DESCRIBE on each topic."""
    request.topics, others = await split_topics(request.topics, AclOperation.DESCRIBE, rights)
    response: ListOffsetsResponse = await rights.serve(request)

    def partition(one: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        return ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=_FAILED)

    response.topics += [
        ListOffsetsTopicResponse(
            name=topic.name, partitions=await rights.make_each(partition, topic.partitions)
        )
        for topic in others
    ]
    return response


async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, rights: Authorization
) -> OffsetForLeaderEpochResponse:
    """CLUSTER_ACTION, as brokers have it, or DESCRIBE on each topic."""
    response: OffsetForLeaderEpochResponse
    if rights.may_on_cluster(AclOperation.CLUSTER_ACTION, tells_denied=False):
        response = await rights.serve(request)
        return response
    names = await rights.make_each(lambda topic: topic.topic, request.topics)
    allowed = await rights.allowed_names(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    request.topics, others = await rights.split(
        lambda topic: topic.topic in allowed, request.topics
    )
    response = await rights.serve(request)

    def partition(one: OffsetForLeaderPartition) -> EpochEndOffset:
        return EpochEndOffset(partition=one.partition, error_code=_FAILED)

    response.topics += [
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=await rights.make_each(partition, topic.partitions)
        )
        for topic in others
    ]
    return response


async def delete_records(
    request: DeleteRecordsRequest, rights: Authorization
) -> DeleteRecordsResponse:
    """DELETE on each topic."""
    request.topics, others = await split_topics(request.topics, AclOperation.DELETE, rights)
    response: DeleteRecordsResponse = await rights.serve(request)

    def partition(one: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        return DeleteRecordsPartitionResult(
            partition_index=one.partition_index, low_watermark=-1, error_code=_FAILED
        )

    response.topics += [
        DeleteRecordsTopicResult(
            name=topic.name, partitions=await rights.make_each(partition, topic.partitions)
        )
        for topic in others
    ]
    return response


async def describe_producers(
    request: DescribeProducersRequest, rights: Authorization
) -> DescribeProducersResponse:
    """READ on each topic."""
    request.topics, others = await split_topics(request.topics, AclOperation.READ, rights)
    response: DescribeProducersResponse = await rights.serve(request)

    def partition(index: int) -> PartitionResponse:
        return PartitionResponse(partition_index=index, error_code=_FAILED)

    response.topics += [
        TopicResponse(
            name=topic.name, partitions=await rights.make_each(partition, topic.partition_indexes)
        )
        for topic in others
    ]
    return response


async def create_topics(
    request: CreateTopicsRequest, rights: Authorization
) -> CreateTopicsResponse:
    """CREATE on the cluster or on each topic; without DESCRIBE_CONFIGS its configs stay hidden."""
    names = await rights.make_each(lambda topic: topic.name, request.topics)
    allowed: Container[str] = await distinct(names, rights.context.work)
    if not rights.may_on_cluster(AclOperation.CREATE, tells_denied=False):
        allowed = await rights.allowed_names(AclOperation.CREATE, ResourceType.TOPIC, names)
    described = await rights.allowed_names(
        AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, tells_denied=False
    )
    request.topics, _ = await rights.split(lambda topic: topic.name in allowed, request.topics)
    response: CreateTopicsResponse = await rights.serve(request)
    _, hidden = await rights.split(lambda result: result.name in described, response.topics)
    for piece in pieces(hidden):
        await give_way(rights.context.work)
        for result in piece:
            if not result.error_code:
                result.topic_config_error_code = _FAILED
                result.num_partitions = result.replication_factor = -1
                result.configs = None if rights.context.api_version >= CONFIGS_SINCE else []

    def refuse(name: str) -> CreatableTopicResult:
        return CreatableTopicResult(
            name=name, error_code=_FAILED, error_message="Authorization failed.", configs=[]
        )

    response.topics += await rights.make_each(refuse, await _denied(names, allowed, rights))
    return response


async def _denied(names: list[str], allowed: Container[str], rights: Authorization) -> list[str]:
    """The names that are not allowed, each once."""
    once = list(await distinct(names, rights.context.work))
    _, denied = await rights.split(allowed.__contains__, once)
    return denied


async def create_partitions(
    request: CreatePartitionsRequest, rights: Authorization
) -> CreatePartitionsResponse:
    """ALTER on each topic."""
    names = await rights.make_each(lambda topic: topic.name, request.topics)
    allowed = await rights.allowed_names(AclOperation.ALTER, ResourceType.TOPIC, names)
    request.topics, _ = await rights.split(lambda topic: topic.name in allowed, request.topics)
    response: CreatePartitionsResponse = await rights.serve(request)
    response.results += await rights.make_each(
        lambda name: CreatePartitionsTopicResult(name=name, error_code=_FAILED),
        await _denied(names, allowed, rights),
    )
    return response


async def delete_topics(
    request: DeleteTopicsRequest, rights: Authorization
) -> DeleteTopicsResponse:
    """DELETE on the cluster or on each topic; without DESCRIBE the name of an id stays hidden."""
    response: DeleteTopicsResponse
    if rights.may_on_cluster(AclOperation.DELETE, tells_denied=False):
        response = await rights.serve(request)
        return response
    others: list[DeletableTopicResult] = []
    if rights.context.api_version < DELETE_BY_ID_SINCE:
        names = request.topic_names
        allowed = await _deletable(names, rights)
        request.topic_names, _ = await rights.split(allowed.__contains__, names)
        others = await rights.make_each(_not_deleted, await _denied(names, allowed, rights))
    else:
        wanted = await rights.make_each(
            lambda topic: (topic, topic.name or rights.name_of(topic.topic_id)), request.topics
        )
        allowed = await _deletable([name for _, name in wanted if name is not None], rights)
        kept, denied = await rights.split(lambda one: one[1] is None or one[1] in allowed, wanted)
        request.topics = [topic for topic, _ in kept]
        others = await rights.make_each(lambda one: _refused(one[0], one[1], rights), denied)
    response = await rights.serve(request)
    response.responses += others
    return response


async def _deletable(names: list[str], rights: Authorization) -> set[str]:
    """The topics that the client may delete, without topics that it may not even describe."""
    allowed = await rights.allowed_names(AclOperation.DELETE, ResourceType.TOPIC, names)
    return await rights.allowed_names(AclOperation.DESCRIBE, ResourceType.TOPIC, allowed)


def _refused(topic: DeleteTopicState, name: str, rights: Authorization) -> DeletableTopicResult:
    """The answer for a topic that may not be deleted; the request has ``name`` or its id."""
    if topic.name is not None:
        return _not_deleted(topic.name)
    shows = rights.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name, tells_denied=False)
    return _not_deleted(name if shows else None, topic.topic_id)


def _not_deleted(name: str | None, topic_id: bytes = ZERO_UUID) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=_FAILED,
        error_message="Topic authorization failed.",
    )
