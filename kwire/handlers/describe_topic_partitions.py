"""DescribeTopicPartitions: topics in pages, for clusters with many partitions (KIP-966).

Behaviour: topics come sorted by name; after ``response_partition_limit`` partitions a cursor says
where to go on. No topics mean all of them. A cursor must point to one of the topics asked for.
"""

from kwire.broker.broker import Broker
from kwire.broker.internal_topics import INTERNAL_TOPICS
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import TOPIC_OPERATIONS, RequestContext
from kwire.metadata.controller import check_topic_name
from kwire.metadata.image import TopicImage
from kwire.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Describe topics up to the limit."""
    all_topics = context.broker.image.topics_by_name
    wanted = {topic.name for topic in request.topics}
    cursor = request.cursor or Cursor(topic_name="", partition_index=0)
    missing_from_request = request.cursor and wanted and cursor.topic_name not in wanted
    if cursor.partition_index < 0 or missing_from_request:
        return DescribeTopicPartitionsResponse(topics=[_refused(topic) for topic in request.topics])
    names = sorted(name for name in wanted or all_topics if name >= cursor.topic_name)
    limit = _limit(request, context)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = all_topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        first = cursor.partition_index if name == cursor.topic_name else 0
        shown = range(first, min(len(topic.partitions), first + limit))
        response.topics.append(_topic(context.broker, topic, shown))
        limit -= len(shown)
        if shown.stop < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=shown.stop)
            break
    return response


def _limit(request: DescribeTopicPartitionsRequest, context: RequestContext) -> int:
    """How many partitions the response may have: at least one, so that it gets on."""
    most = context.broker.integer("max.request.partition.size.limit")
    return max(1, min(request.response_partition_limit, most))


def _refused(wanted: TopicRequest) -> DescribeTopicPartitionsResponseTopic:
    """An answer to a request that can't be answered: there is no error for all of it."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_REQUEST, name=wanted.name
    )


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


def _topic(broker: Broker, topic: TopicImage, shown: range) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=p.leader_epoch,
                replica_nodes=list(p.replicas),
                isr_nodes=list(p.isr),
                offline_replicas=broker.offline_replicas(topic, index),
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index in shown
            for p in (topic.partitions[index],)
            for leader in (broker.leader_of(topic, index),)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
