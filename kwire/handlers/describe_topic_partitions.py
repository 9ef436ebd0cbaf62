"""DescribeTopicPartitions: topics in pages, for clusters with many partitions (KIP-966).

Behavior: topics are sorted by name. After ``response_partition_limit`` partitions, a cursor says
where the next page begins. A request without topics means all topics. If a request names topics,
its cursor has to name one of them.
"""

from collections.abc import Sequence
from heapq import merge
from typing import TYPE_CHECKING, Any

from kwire.broker.broker import Broker
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import TOPIC_OPERATIONS, RequestContext
from kwire.handlers.lib.rights import DESCRIBE, TOPIC, Serve, denied, right
from kwire.handlers.lib.slices import distinct, give_way, in_order, pieces
from kwire.metadata.controller import check_topic_name
from kwire.metadata.image import INTERNAL_TOPICS, TopicImage
from kwire.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization


async def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Describe topics up to the limit."""
    work = context.work
    all_topics = context.broker.image.topics_by_name
    wanted: set[str] = set()
    for piece in pieces(request.topics):
        await give_way(work)
        wanted.update(topic.name for topic in piece)
    cursor = request.cursor or Cursor(topic_name="", partition_index=0)
    missing_from_request = request.cursor and wanted and cursor.topic_name not in wanted
    if cursor.partition_index < 0 or missing_from_request:
        return await _refused(request, context)
    limit = _limit(request, context)
    response = DescribeTopicPartitionsResponse()
    for name in merge(*await in_order(wanted or all_topics, work)):
        await give_way(work)
        if name < cursor.topic_name:
            continue
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = all_topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        first = cursor.partition_index if name == cursor.topic_name else 0
        shown = range(first, min(len(topic.partitions), first + limit))
        response.topics.append(await _topic(topic, shown, context))
        limit -= len(shown)
        if shown.stop < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=shown.stop)
            break
    return response


def _limit(request: DescribeTopicPartitionsRequest, context: RequestContext) -> int:
    """How many partitions the response may have: at least one, so that no page is empty."""
    most = context.broker.integer("max.request.partition.size.limit")
    return max(1, min(request.response_partition_limit, most))


async def _refused(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Refuse a request: every topic gets the error, because the response itself has no code."""
    response = DescribeTopicPartitionsResponse()
    for piece in pieces(request.topics):
        await give_way(context.work)
        response.topics += [
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=wanted.name
            )
            for wanted in piece
        ]
    return response


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


async def _topic(
    topic: TopicImage, shown: range, context: RequestContext
) -> DescribeTopicPartitionsResponseTopic:
    work = context.work
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    for piece in pieces(shown):
        await give_way(work)
        partitions += _partitions(context.broker, topic, piece)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partitions(
    broker: Broker, topic: TopicImage, shown: Sequence[int]
) -> list[DescribeTopicPartitionsResponsePartition]:
    return [
        DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=leader,
            leader_epoch=p.leader_epoch,
            replica_nodes=list(p.replicas),
            isr_nodes=list(p.isr),
            offline_replicas=broker.offline_replicas(topic, index),
            eligible_leader_replicas=list(p.elr),
            last_known_elr=list(p.last_known_elr),
        )
        for index in shown
        for p in (topic.partitions[index],)
        for leader in (broker.leader_of(topic, index),)
    ]


@right("DESCRIBE on each topic")
async def _describe_each(
    request: DescribeTopicPartitionsRequest, rights: "Authorization", serve: Serve
) -> Any:
    # What is hidden is taken from the request, so that a page has as many partitions as asked.
    names = await rights.each(lambda topic: topic.name, request.topics)
    wanted = names or list(rights.context.broker.image.topics_by_name)
    allowed = await rights.allowed_names(DESCRIBE, TOPIC, wanted, tells_denied=bool(names))
    first = request.cursor.topic_name if request.cursor else ""
    if request.cursor and first not in allowed and (not names or first in names):
        allowed = {name for name in allowed if name > first}
        request.cursor = None
    hidden, _ = await rights.split(
        lambda name: name not in allowed and name >= first,
        list(await distinct(names, rights.context.work)),
    )
    asked = await rights.each(lambda name: TopicRequest(name=name), hidden)
    others = await rights.refused_elements(request, "topics", asked, denied(TOPIC))
    rights.context.work.doomed += (asked, request.topics)
    request.topics = await rights.each(lambda name: TopicRequest(name=name), list(allowed))
    if not request.topics:
        return DescribeTopicPartitionsResponse(topics=others)
    response: DescribeTopicPartitionsResponse = await serve(request)
    told = "topic_authorized_operations"
    await rights.tell_operations(response.topics, TOPIC, "name", told)
    response.topics += others
    return response


RIGHTS = (_describe_each,)
