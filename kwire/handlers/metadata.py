"""Metadata: brokers, and the partitions and leaders of topics.

Behavior:

- No list of topics means all topics from version 1 on, and an empty list means none. In version 0
  an empty list means all.
- A topic that doesn't exist is created if client and broker allow it. The answer is still
  UNKNOWN_TOPIC_OR_PARTITION, as in Kafka: clients ask again and find the topic then. All topics of
  a request are created in one commit. If there are more than CreateTopics may create, none is
  created.
- While a broker is suspected to be dead, the answer waits a moment for the election. It contains a
  dead broker for a moment longer (see ``kwire.broker.failure_detector``).
- For an unknown topic id (version 12), the error is UNKNOWN_TOPIC_ID.
"""

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from kwire.broker.broker import Broker
from kwire.broker.topic_auto_creation import create_missing
from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.advertised_listeners import advertised_address, advertised_brokers
from kwire.handlers.lib.context import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    RequestContext,
)
from kwire.handlers.lib.rights import CREATE, DESCRIBE, FAILED, TOPIC, Serve, right
from kwire.handlers.lib.slices import PIECE, free_in_slices, give_way, pieces
from kwire.handlers.lib.waiting import later
from kwire.metadata.controller import check_partition_total, check_topic_name
from kwire.metadata.image import INTERNAL_TOPICS, PartitionImage, TopicImage
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

log = logging.getLogger(__name__)

NAMES_PER_TURN = 1000
"""After checks of this many names, other tasks have their turn."""

BYTES = 50

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


NULL_NAMES_SINCE = 12
AUTO_CREATION_FIELD_SINCE = 4


async def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    """Describe the cluster and the topics that the request names."""
    broker = context.broker
    if broker.suspects is not None:
        from kwire.handlers.lib.await_elections import await_elections

        await await_elections(broker)
    topics = await _topics(request, context)
    image, node_id = broker.image, broker.node_id
    # Every broker takes changes of metadata. The elected controller may have just died: a client
    # that has never reached it would wait for it (librdkafka asks nobody else then).
    controller_id = node_id
    if len(image.brokers) > 1:
        brokers = _brokers(context)
        if not image.is_active(node_id):
            controller_id = image.controller_id
    else:
        host, port = advertised_address(context)
        rack = image.brokers[node_id].rack
        brokers = [MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)]
    ask_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if ask_cluster else NOT_ASKED,
    )


def _brokers(context: RequestContext) -> list[MetadataResponseBroker]:
    """The brokers of a cluster with several brokers."""
    suspects = context.broker.suspects
    remembered = () if suspects is None else suspects.fenced_lately()
    return [
        MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack, _ in advertised_brokers(context, remembered=remembered)
    ]


async def _topics(request: MetadataRequest, context: RequestContext) -> list[MetadataResponseTopic]:
    broker = context.broker
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    if request.topics is None or (not request.topics and context.api_version == 0):
        topics = broker.image.topics_by_name.values()
        return [await _describe(topic, operations, context) for topic in topics]
    # A topic is described once, even if the request names it a thousand times.
    distinct: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    missing: dict[str, None] = {}
    existing = broker.image.topics_by_name
    for piece in pieces(request.topics):
        await give_way(context.work)
        for wanted in piece:
            distinct[wanted.name, wanted.topic_id] = wanted
            if wanted.topic_id == ZERO_UUID and wanted.name and wanted.name not in existing:
                missing[wanted.name] = None
    if missing:
        await _create_missing(list(missing), request, context)
    described: list[MetadataResponseTopic] = []
    for wanted in distinct.values():
        await give_way(context.work)
        described.append(await _topic(wanted, context, operations, missing))
    if len(distinct) > PIECE:
        context.work.doomed += (distinct, missing)
    return described


async def _topic(
    wanted: MetadataRequestTopic,
    context: RequestContext,
    operations: int,
    missing: Container[str],
) -> MetadataResponseTopic:
    """The answer about one topic; ``missing`` are topics that didn't exist before the request."""
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
    found = broker.image.topics_by_name.get(name)
    if found is not None and name not in missing:
        return await _describe(found, operations, context)
    return MetadataResponseTopic(
        error_code=_why_missing(name),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _why_missing(name: str) -> ErrorCode:
    """The error of a topic that doesn't exist, or didn't exist before the request."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return _UNKNOWN


async def _create_missing(
    names: list[str], request: MetadataRequest, context: RequestContext
) -> None:
    """Create topics that don't exist, if that is allowed.

    If a topic can't be created, a warning goes to the log. The client doesn't learn of it, as in
    Kafka, whose AutoTopicCreationManager doesn't wait for the controller's answer.
    """
    allowed = request.allow_auto_topic_creation or context.api_version < 4
    if not (allowed and context.broker.setting("auto.create.topics.enable")):
        return
    try:
        refused = await later(partial(_create, names, context))
    except KafkaError as error:
        log.warning("cannot create topics by their first use: %s", error)
        return
    for name, why in refused.items():
        log.warning("cannot create topic %s by its first use: %s", name, why)


async def _create(names: list[str], context: RequestContext) -> Mapping[str, KafkaError]:
    """Create the topics whose names are legal; return the errors of those that can't be created.

    Raises KafkaError, and RequestTooLarge as soon as there are too many names. Other tasks have
    their turn in between.
    """
    legal: list[str] = []
    for number, name in enumerate(names, 1):
        if _why_missing(name) is _UNKNOWN:
            legal.append(name)
            check_partition_total(len(legal))
        if number % NAMES_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
    if not legal:
        return {}
    return await create_missing(context.broker, legal, context.work)


async def _describe(
    topic: TopicImage, operations: int, context: RequestContext
) -> MetadataResponseTopic:
    """A topic in the form of the response."""
    work = context.work
    partitions: list[MetadataResponsePartition] = []
    for piece in pieces(topic.partitions):
        await give_way(work)
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


@right("DESCRIBE on each topic, CREATE for one that doesn't exist")
async def _describe_each(request: MetadataRequest, rights: "Authorization", serve: Serve) -> Any:
    version = rights.context.api_version
    wants_all = request.topics is None or (version == 0 and not request.topics)
    others: list[MetadataResponseTopic] = []
    if not wants_all and request.topics:
        request.topics, others = await _visible(request.topics, request, rights)
    response: MetadataResponse = await serve(request)
    if version == 0 and not wants_all and not request.topics:
        response.topics = []  # for the handler, an empty list would mean all topics
    if wants_all:
        await rights.keep_seen(response, "topics", DESCRIBE, TOPIC, "name")
    told = "topic_authorized_operations"
    await rights.tell_operations(response.topics, TOPIC, "name", told)
    response.topics += others
    rights.tell_cluster_operations(response)
    return response


async def _visible(
    topics: list[MetadataRequestTopic], request: MetadataRequest, rights: "Authorization"
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """The topics of a request that the handler may answer, and the answers for the others."""
    image = rights.context.broker.image
    with_id, without = await rights.split(lambda topic: topic.topic_id != ZERO_UUID, topics)

    def name_of(topic: MetadataRequestTopic) -> str | None:
        return rights.name_of(topic.topic_id) if topic.topic_id != ZERO_UUID else topic.name or ""

    # With an id in the request, names don't count.
    kept, unseen = await rights.split_by_name(with_id or without, DESCRIBE, TOPIC, name_of)
    missing, existing = await rights.split(
        lambda topic: (name_of(topic) or "") not in image.topics_by_name, kept
    )
    uncreatable: list[MetadataRequestTopic] = []
    if (
        missing
        and _creates(request, rights.context)
        and not rights.may_on_cluster(CREATE, tells_denied=False)
    ):
        creatable, uncreatable = await rights.split_by_name(missing, CREATE, TOPIC, name_of)
        kept = existing + creatable
    refused = await rights.each(
        lambda topic: _unseen(topic, name_of(topic), rights.context),
        await _once(unseen, name_of, rights.context.work),
    )
    for hidden in await rights.distinct(uncreatable, name_of):
        await give_way(rights.context.work)
        answer = _unseen(hidden, name_of(hidden), rights.context)
        answer.is_internal = name_of(hidden) in INTERNAL_TOPICS
        refused.append(answer)
    return kept, refused


async def _once(
    topics: list[MetadataRequestTopic],
    name_of: Callable[[MetadataRequestTopic], str | None],
    work: Work,
) -> list[MetadataRequestTopic]:
    """The topics, each once by its name and id."""
    once: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for piece in pieces(topics):
        await give_way(work)
        once.update(((name_of(topic), topic.topic_id), topic) for topic in piece)
    free_in_slices(once, work)
    return list(once.values())


def _creates(request: MetadataRequest, context: RequestContext) -> bool:
    """Whether the handler would create a topic that doesn't exist."""
    asked = request.allow_auto_topic_creation or context.api_version < AUTO_CREATION_FIELD_SINCE
    return bool(asked and context.broker.setting("auto.create.topics.enable"))


def _unseen(
    topic: MetadataRequestTopic, name: str | None, context: RequestContext
) -> MetadataResponseTopic:
    """The answer about a topic that the client may not see, with the request's own values only."""
    if topic.topic_id == ZERO_UUID:
        return MetadataResponseTopic(error_code=FAILED[TOPIC], name=name)
    shown = None if context.api_version >= NULL_NAMES_SINCE else ""
    return MetadataResponseTopic(error_code=FAILED[TOPIC], name=shown, topic_id=topic.topic_id)


RIGHTS = (_describe_each,)
