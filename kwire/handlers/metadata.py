"""Metadata: brokers, and the partitions and leaders of topics.

Behaviour:

- No list of topics means all of them from version 1 on, an empty list none; in version 0 an empty
  list means all.
- A topic that doesn't exist is created where client and broker allow it. The answer is
  UNKNOWN_TOPIC_OR_PARTITION all the same, as in Kafka: clients ask again and find it then.
- By topic id (version 12): UNKNOWN_TOPIC_ID for one that is gone.
"""

import logging
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
from kwire.handlers.waiting import Unfinished, at_once_or_later, later
from kwire.metadata.controller import check_topic_name
from kwire.metadata.image import TopicImage
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol.types import ZERO_UUID

log = logging.getLogger(__name__)


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
        return [describe(broker, topic, operations) for topic in topics]
    # Named once or a thousand times, a topic is described once.
    distinct = {(wanted.name, wanted.topic_id): wanted for wanted in request.topics}
    return [await _topic(wanted, request, context, operations) for wanted in distinct.values()]


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
        return describe(broker, found, operations)
    name = wanted.name or ""
    try:
        if name not in broker.image.topics_by_name:
            check_topic_name(name)
            await _create_and_refuse(name, request, context)
        return describe(broker, broker.image.topics_by_name[name], operations)
    except KafkaError as error:
        return MetadataResponseTopic(
            error_code=error.code, name=name, is_internal=name in INTERNAL_TOPICS
        )


async def _create_and_refuse(name: str, request: MetadataRequest, context: RequestContext) -> None:
    """Create a missing topic where that is allowed; KafkaError (UNKNOWN_TOPIC_OR_PARTITION)."""
    allowed = request.allow_auto_topic_creation or context.api_version < 4
    if allowed and context.broker.setting("auto.create.topics.enable"):
        try:
            await later(partial(create_if_missing, context.broker, name))
        except KafkaError as error:
            log.warning("cannot create topic %s by its first use: %s", name, error)
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def describe(broker: Broker, topic: TopicImage, operations: int) -> MetadataResponseTopic:
    """A topic in the form of the response."""
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=p.leader_epoch,
                replica_nodes=list(p.replicas),
                isr_nodes=list(p.isr),
                offline_replicas=broker.offline_replicas(topic, index),
            )
            for index, p in enumerate(topic.partitions)
            for leader in (broker.leader_of(topic, index),)
        ],
        topic_authorized_operations=operations,
    )
