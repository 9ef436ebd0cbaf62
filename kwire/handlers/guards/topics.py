"""What the APIs of topics need: WRITE, READ, DESCRIBE, DELETE, ALTER or CREATE on each topic.

A topic that the client may not see has the same answer whether it exists or not. Only a topic id
tells whether a topic has it, because ids aren't secret in Kafka either.

Source: KafkaApis, ControllerApis, DescribeTopicPartitionsRequestHandler of Kafka.
"""

from typing import Any

from kwire.handlers.guards.gate import FAILED, Gate, refused, topics_apart
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
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
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


async def produce(request: ProduceRequest, gate: Gate) -> ProduceResponse | None:
    """WRITE on each topic; with records of a transaction, WRITE on its transactional id too."""
    if _is_transactional(request) and not (
        request.transactional_id is not None
        and gate.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    ):
        if not request.acks:
            raise refused(ResourceType.TRANSACTIONAL_ID)
        code = FAILED[ResourceType.TRANSACTIONAL_ID]
        return ProduceResponse(responses=[_unwritten(one, code) for one in request.topic_data])
    by_id = gate.context.api_version >= PRODUCE_BY_ID_SINCE
    kept, others = await topics_apart(request.topic_data, AclOperation.WRITE, gate, by_id=by_id)
    request.topic_data = kept
    response: ProduceResponse | None = await gate.serve(request)
    if others and not request.acks:
        raise refused(ResourceType.TOPIC)  # without a response, only the end of the connection says
    if response is not None:
        response.responses += [_unwritten(topic, _FAILED) for topic in others]
    return response


def _is_transactional(request: ProduceRequest) -> bool:
    """Whether a partition's first batch belongs to a transaction."""
    return any(_of_transaction(one) for topic in request.topic_data for one in topic.partition_data)


def _of_transaction(data: PartitionProduceData) -> bool:
    records = data.records
    if not isinstance(records, bytes | bytearray | memoryview) or len(records) <= _ATTRIBUTES_AT:
        return False
    return records[_MAGIC_AT] == 2 and bool(records[_ATTRIBUTES_AT] & _TRANSACTIONAL)


def _unwritten(topic: TopicProduceData, code: int) -> TopicProduceResponse:
    partitions = [
        PartitionProduceResponse(index=one.index, error_code=code, base_offset=-1)
        for one in topic.partition_data
    ]
    return TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
    )


async def fetch(request: FetchRequest, gate: Gate) -> Any:
    """READ on each topic, which the handler checks: a session has topics of earlier requests.

    A replica needs CLUSTER_ACTION.
    """
    replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
    if replica_id < 0 or gate.may_on_cluster(AclOperation.CLUSTER_ACTION):
        return await gate.serve(request)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=one.partition,
                        error_code=_FAILED,
                        high_watermark=-1,
                        records=b"",
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def list_offsets(request: ListOffsetsRequest, gate: Gate) -> ListOffsetsResponse:
    """DESCRIBE on each topic."""
    request.topics, others = await topics_apart(request.topics, AclOperation.DESCRIBE, gate)
    response: ListOffsetsResponse = await gate.serve(request)
    response.topics += [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(
                    partition_index=one.partition_index, error_code=_FAILED
                )
                for one in topic.partitions
            ],
        )
        for topic in others
    ]
    return response


async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, gate: Gate
) -> OffsetForLeaderEpochResponse:
    """CLUSTER_ACTION, as brokers have it, or DESCRIBE on each topic."""
    response: OffsetForLeaderEpochResponse
    if gate.may_on_cluster(AclOperation.CLUSTER_ACTION, tells_denied=False):
        response = await gate.serve(request)
        return response
    allowed = await gate.allowed(
        AclOperation.DESCRIBE, ResourceType.TOPIC, [topic.topic for topic in request.topics]
    )
    others = [topic for topic in request.topics if topic.topic not in allowed]
    request.topics = [topic for topic in request.topics if topic.topic in allowed]
    response = await gate.serve(request)
    response.topics += [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                EpochEndOffset(partition=one.partition, error_code=_FAILED)
                for one in topic.partitions
            ],
        )
        for topic in others
    ]
    return response


async def delete_records(request: DeleteRecordsRequest, gate: Gate) -> DeleteRecordsResponse:
    """DELETE on each topic."""
    request.topics, others = await topics_apart(request.topics, AclOperation.DELETE, gate)
    response: DeleteRecordsResponse = await gate.serve(request)
    response.topics += [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(
                    partition_index=one.partition_index, low_watermark=-1, error_code=_FAILED
                )
                for one in topic.partitions
            ],
        )
        for topic in others
    ]
    return response


async def describe_producers(
    request: DescribeProducersRequest, gate: Gate
) -> DescribeProducersResponse:
    """READ on each topic."""
    request.topics, others = await topics_apart(request.topics, AclOperation.READ, gate)
    response: DescribeProducersResponse = await gate.serve(request)
    response.topics += [
        TopicResponse(
            name=topic.name,
            partitions=[
                PartitionResponse(partition_index=index, error_code=_FAILED)
                for index in topic.partition_indexes
            ],
        )
        for topic in others
    ]
    return response


async def create_topics(request: CreateTopicsRequest, gate: Gate) -> CreateTopicsResponse:
    """CREATE on the cluster or on each topic; without DESCRIBE_CONFIGS its configs stay hidden."""
    names = [topic.name for topic in request.topics]
    allowed = set(names)
    if not gate.may_on_cluster(AclOperation.CREATE, tells_denied=False):
        allowed = await gate.allowed(AclOperation.CREATE, ResourceType.TOPIC, names)
    described = await gate.allowed(
        AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, tells_denied=False
    )
    request.topics = [topic for topic in request.topics if topic.name in allowed]
    response: CreateTopicsResponse = await gate.serve(request)
    for result in response.topics:
        if result.name not in described and not result.error_code:
            result.topic_config_error_code = _FAILED
            result.num_partitions = result.replication_factor = -1
            result.configs = None if gate.context.api_version >= CONFIGS_SINCE else []
    response.topics += [
        CreatableTopicResult(
            name=name, error_code=_FAILED, error_message="Authorization failed.", configs=[]
        )
        for name in dict.fromkeys(names)
        if name not in allowed
    ]
    return response


async def create_partitions(
    request: CreatePartitionsRequest, gate: Gate
) -> CreatePartitionsResponse:
    """ALTER on each topic."""
    names = [topic.name for topic in request.topics]
    allowed = await gate.allowed(AclOperation.ALTER, ResourceType.TOPIC, names)
    request.topics = [topic for topic in request.topics if topic.name in allowed]
    response: CreatePartitionsResponse = await gate.serve(request)
    response.results += [
        CreatePartitionsTopicResult(name=name, error_code=_FAILED)
        for name in dict.fromkeys(names)
        if name not in allowed
    ]
    return response


async def delete_topics(request: DeleteTopicsRequest, gate: Gate) -> DeleteTopicsResponse:
    """DELETE on the cluster or on each topic; without DESCRIBE the name of an id stays hidden."""
    response: DeleteTopicsResponse
    if gate.may_on_cluster(AclOperation.DELETE, tells_denied=False):
        response = await gate.serve(request)
        return response
    others: list[DeletableTopicResult] = []
    if gate.context.api_version < DELETE_BY_ID_SINCE:
        names = request.topic_names
        allowed = await _deletable(names, gate)
        request.topic_names = [name for name in names if name in allowed]
        others = [_not_deleted(name) for name in dict.fromkeys(names) if name not in allowed]
    else:
        named = {topic.topic_id: gate.name_of(topic.topic_id) for topic in request.topics}
        wanted = [topic.name or named[topic.topic_id] for topic in request.topics]
        allowed = await _deletable([name for name in wanted if name is not None], gate)
        kept = []
        for topic, name in zip(request.topics, wanted, strict=True):
            if name is None or name in allowed:
                kept.append(topic)
            elif topic.name is not None:
                others.append(_not_deleted(topic.name))
            else:
                shows = gate.may(
                    AclOperation.DESCRIBE, ResourceType.TOPIC, name, tells_denied=False
                )
                others.append(_not_deleted(name if shows else None, topic.topic_id))
        request.topics = kept
    response = await gate.serve(request)
    response.responses += others
    return response


async def _deletable(names: list[str], gate: Gate) -> set[str]:
    """The topics that may be deleted: a name that may not even be seen is none of them."""
    allowed = await gate.allowed(AclOperation.DELETE, ResourceType.TOPIC, names)
    return await gate.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, allowed)


def _not_deleted(name: str | None, topic_id: bytes = ZERO_UUID) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=_FAILED,
        error_message="Topic authorization failed.",
    )
