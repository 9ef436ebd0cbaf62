"""Metadata: brokers, and the partitions and leaders of topics.

Behaviour:

- No list of topics means all of them from version 1 on, an empty list none; in version 0 an empty
  list means all.
- A topic that doesn't exist is created on the spot where client and broker allow it, and answered
  as it is then: the retry that Kafka makes clients do isn't needed.
- By topic id (version 12): UNKNOWN_TOPIC_ID for one that is gone.
"""

from collections.abc import Sequence
from functools import partial

from kwire.broker.broker import Broker
from kwire.broker.internal_topics import INTERNAL_TOPICS
from kwire.broker.topics import create_if_missing
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    RequestContext,
)
from kwire.handlers.slices import pieces
from kwire.handlers.waiting import Unfinished, at_once_or_later, later
from kwire.metadata.controller import check_topic_name
from kwire.metadata.image import PartitionImage, TopicImage
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol.types import ZERO_UUID

UNITS_PER_NAME = 5
UNITS = 3
UNITS_PER_PARTITION = 4
BYTES = 50


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | Unfinished:
    """Describe the cluster and the topics asked for."""
    return at_once_or_later(_handle(request, context))


async def _handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    broker = context.broker
    topics = await _topics(request, context)
    host, port = context.advertised_address()
    ask_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.node_id,
                host=host,
                port=port,
                rack=broker.image.brokers[broker.node_id].rack,
            )
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if ask_cluster else NOT_ASKED,
    )


async def _topics(request: MetadataRequest, context: RequestContext) -> list[MetadataResponseTopic]:
    broker = context.broker
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    if request.topics is None or (not request.topics and context.api_version == 0):
        topics = broker.image.topics_by_name.values()
        return [await _describe(topic, operations, context) for topic in topics]
    # Named once or a thousand times, a topic is described once.
    distinct: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for piece in pieces(request.topics):
        if distinct and context.work.spend(len(piece)):
            await later(context.work.next_slice)
        distinct.update(((wanted.name, wanted.topic_id), wanted) for wanted in piece)
    described: list[MetadataResponseTopic] = []
    for wanted in distinct.values():
        if described and context.work.spend(UNITS_PER_NAME):
            await later(context.work.next_slice)
        described.append(await _topic(wanted, request, context, operations))
    return described


async def _topic(
    wanted: MetadataRequestTopic,
    request: MetadataRequest,
    context: RequestContext,
    operations: int,
) -> MetadataResponseTopic:
    broker = context.broker
    if wanted.topic_id != ZERO_UUID:
        found = broker.image.topics_by_id.get(wanted.topic_id)
        if found is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                name=None if context.api_version >= 12 else "",
                topic_id=wanted.topic_id,
            )
        return await _describe(found, operations, context)
    name = wanted.name or ""
    try:
        if name not in broker.image.topics_by_name:
            check_topic_name(name)
            await _create_or_refuse(name, request, context)
        return await _describe(broker.image.topics_by_name[name], operations, context)
    except KafkaError as error:
        return MetadataResponseTopic(
            error_code=error.code, name=name, is_internal=name in INTERNAL_TOPICS
        )


async def _create_or_refuse(name: str, request: MetadataRequest, context: RequestContext) -> None:
    """Create a missing topic, or raise KafkaError (UNKNOWN_TOPIC_OR_PARTITION)."""
    allowed = request.allow_auto_topic_creation or context.api_version < 4
    if not (allowed and context.broker.setting("auto.create.topics.enable")):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await later(partial(create_if_missing, context.broker, name))


async def _describe(
    topic: TopicImage, operations: int, context: RequestContext
) -> MetadataResponseTopic:
    """A topic in the form of the response."""
    work = context.work
    partitions: list[MetadataResponsePartition] = []
    for piece in pieces(topic.partitions):
        if work.spend(UNITS + UNITS_PER_PARTITION * len(piece)):
            await later(work.next_slice)
        partitions += _partitions(context.broker, topic, len(partitions), piece)
    work.answer(BYTES + len(topic.name) + BYTES * len(partitions))
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partitions(
    broker: Broker, topic: TopicImage, first: int, piece: Sequence[PartitionImage]
) -> list[MetadataResponsePartition]:
    """A piece of a topic's partitions, the first of which has this number."""
    return [
        MetadataResponsePartition(
            error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=leader,
            leader_epoch=p.leader_epoch,
            replica_nodes=list(p.replicas),
            isr_nodes=list(p.isr),
            offline_replicas=broker.offline_replicas(topic, index),
        )
        for index, p in enumerate(piece, first)
        for leader in (broker.leader_of(topic, index),)
    ]
