"""The rights for the APIs that describe topics and the cluster, and what these APIs hide.

Rules:

- If a request asks for all topics, topics without DESCRIBE are left out. If it names a topic
  without DESCRIBE, the error is the same whether or not the topic exists.
- A missing topic is created only with CREATE on the cluster or on the topic.

Source: KafkaApis.handleTopicMetadataRequest, DescribeTopicPartitionsRequestHandler of Kafka.
"""

from typing import Any

from kwire.handlers.guards.authorization import FAILED, Authorization
from kwire.handlers.lib.context import NOT_ASKED
from kwire.handlers.lib.slices import distinct, free_in_slices, give_way, pieces
from kwire.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.metadata.image import INTERNAL_TOPICS
from kwire.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.protocol.types import ZERO_UUID

NULL_NAMES_SINCE = 12
AUTO_CREATION_FIELD_SINCE = 4

_FAILED = FAILED[ResourceType.TOPIC]


async def metadata(request: MetadataRequest, rights: Authorization) -> MetadataResponse:
    """DESCRIBE on each topic, CREATE for one that doesn't exist."""
    version = rights.context.api_version
    wants_all = request.topics is None or (version == 0 and not request.topics)
    others: list[MetadataResponseTopic] = []
    if not wants_all and request.topics:
        request.topics, others = await _visible(request.topics, request, rights)
    response: MetadataResponse = await rights.serve(request)
    if version == 0 and not wants_all and not request.topics:
        response.topics = []  # for the handler, an empty list would mean all topics
    if wants_all:
        names = await rights.make_each(lambda topic: topic.name or "", response.topics)
        allowed = await rights.allowed_names(
            AclOperation.DESCRIBE, ResourceType.TOPIC, names, tells_denied=False
        )
        response.topics, _ = await rights.split(
            lambda topic: topic.name in allowed, response.topics
        )
    if request.include_topic_authorized_operations:
        await _tell_operations(response.topics, rights)
    response.topics += others
    response.cluster_authorized_operations = _cluster_operations(
        response.cluster_authorized_operations, rights
    )
    return response


async def _visible(
    topics: list[MetadataRequestTopic], request: MetadataRequest, rights: Authorization
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """The topics of a request that the handler may answer, and the answers for the others."""
    image = rights.context.broker.image
    with_id, without = await rights.split(lambda topic: topic.topic_id != ZERO_UUID, topics)

    def named(topic: MetadataRequestTopic) -> tuple[MetadataRequestTopic, str | None]:
        has_id = topic.topic_id != ZERO_UUID
        return topic, rights.name_of(topic.topic_id) if has_id else topic.name or ""

    # With an id in the request, names don't count.
    pairs = await rights.make_each(named, with_id or without)
    names = [name for _, name in pairs if name is not None]
    seen = await rights.allowed_names(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    missing, _ = await rights.split(lambda name: name not in image.topics_by_name, list(seen))
    uncreatable: set[str] = set()
    creates = bool(missing) and _creates(request, rights)
    if creates and not rights.may_on_cluster(AclOperation.CREATE, tells_denied=False):
        allowed = await rights.allowed_names(AclOperation.CREATE, ResourceType.TOPIC, missing)
        uncreatable = set(missing) - allowed

    def answered(pair: tuple[MetadataRequestTopic, str | None]) -> bool:
        return pair[1] is None or (pair[1] in seen and pair[1] not in uncreatable)

    def hidden(pair: tuple[MetadataRequestTopic, str]) -> MetadataResponseTopic:
        response = _hidden(*pair, rights)
        response.is_internal = pair[1] in uncreatable and pair[1] in INTERNAL_TOPICS
        return response

    kept, others = await rights.split(answered, pairs)
    once: dict[tuple[str | None, bytes], tuple[MetadataRequestTopic, str | None]] = {}
    work = rights.context.work
    for piece in pieces(others):
        await give_way(work)
        once.update(((name, topic.topic_id), (topic, name)) for topic, name in piece)
    free_in_slices(once, work)
    topics = await rights.make_each(lambda pair: pair[0], kept)
    return topics, await rights.make_each(hidden, list(once.values()))


def _creates(request: MetadataRequest, rights: Authorization) -> bool:
    """Whether the handler would create a topic that doesn't exist."""
    asked = request.allow_auto_topic_creation
    asked = asked or rights.context.api_version < AUTO_CREATION_FIELD_SINCE
    return bool(asked and rights.context.broker.setting("auto.create.topics.enable"))


def _hidden(topic: MetadataRequestTopic, name: str, rights: Authorization) -> MetadataResponseTopic:
    """The answer about a topic that the client may not see, with the request's own values only."""
    if topic.topic_id == ZERO_UUID:
        return MetadataResponseTopic(error_code=_FAILED, name=name)
    shown = None if rights.context.api_version >= NULL_NAMES_SINCE else ""
    return MetadataResponseTopic(error_code=_FAILED, name=shown, topic_id=topic.topic_id)


async def _tell_operations(topics: list[Any], rights: Authorization) -> None:
    """Fill in the operations that the client may do to topics."""
    for piece in pieces(topics):
        await give_way(rights.context.work)
        for topic in piece:
            if topic.name is not None:
                topic.topic_authorized_operations = rights.operations(
                    ResourceType.TOPIC, topic.name
                )


async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, rights: Authorization
) -> DescribeTopicPartitionsResponse:
    """DESCRIBE on each topic, so that a page has as many partitions as the client asks for."""
    others: list[DescribeTopicPartitionsResponseTopic] = []
    if request.topics:
        names = await rights.make_each(lambda topic: topic.name, request.topics)
        allowed = await rights.allowed_names(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
        first = request.cursor.topic_name if request.cursor else ""
        denied, _ = await rights.split(
            lambda name: name not in allowed and name >= first,
            list(await distinct(names, rights.context.work)),
        )
        others = await rights.make_each(
            lambda name: DescribeTopicPartitionsResponseTopic(error_code=_FAILED, name=name),
            denied,
        )
        request.topics, _ = await rights.split(lambda topic: topic.name in allowed, request.topics)
        if first not in allowed and first in names:
            request.cursor = None
            request.topics, _ = await rights.split(lambda topic: topic.name > first, request.topics)
    else:
        every = list(rights.context.broker.image.topics_by_name)
        allowed = await rights.allowed_names(
            AclOperation.DESCRIBE, ResourceType.TOPIC, every, tells_denied=False
        )
        if request.cursor and request.cursor.topic_name not in allowed:
            allowed = {name for name in allowed if name > request.cursor.topic_name}
            request.cursor = None
        request.topics = await rights.make_each(lambda name: TopicRequest(name=name), list(allowed))
    if not request.topics:
        return DescribeTopicPartitionsResponse(topics=others)
    response: DescribeTopicPartitionsResponse = await rights.serve(request)
    await _tell_operations(response.topics, rights)
    response.topics += others
    return response


async def describe_cluster(
    request: DescribeClusterRequest, rights: Authorization
) -> DescribeClusterResponse:
    """Nothing; DESCRIBE on the cluster shows what the client may do to it."""
    response: DescribeClusterResponse = await rights.serve(request)
    if not response.error_code:
        response.cluster_authorized_operations = _cluster_operations(
            response.cluster_authorized_operations, rights
        )
    return response


def _cluster_operations(told: int, rights: Authorization) -> int:
    """The operations that the client may do to the cluster; 0 if it may not even describe it."""
    if told == NOT_ASKED or not rights.may_on_cluster(AclOperation.DESCRIBE):
        return NOT_ASKED if told == NOT_ASKED else 0
    return rights.operations(ResourceType.CLUSTER, CLUSTER_NAME)
