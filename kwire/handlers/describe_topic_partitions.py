"""DescribeTopicPartitions: topics in pages, for clusters with many partitions (KIP-966).

Behaviour: topics come sorted by name; after ``response_partition_limit`` partitions a cursor says
where to go on. No topics mean all of them.
"""

from kwire.broker.topics import INTERNAL_TOPICS
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
)


async def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Describe topics up to the limit."""
    broker = context.broker
    if request.cursor is not None and request.cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's partition is negative")
    limit = max(
        1,
        min(
            request.response_partition_limit,
            broker.integer("max.request.partition.size.limit"),
        ),
    )
    all_topics = broker.image.topics_by_name
    names = sorted({topic.name for topic in request.topics} or all_topics)
    first_partition = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names[:1] == [request.cursor.topic_name]:
            first_partition = request.cursor.partition_index
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = all_topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        shown = range(first_partition, min(len(topic.partitions), first_partition + limit))
        response.topics.append(_topic(topic, shown))
        limit -= len(shown)
        if shown.stop < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=shown.stop)
            break
        first_partition = 0
    return response


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, is_internal=name in INTERNAL_TOPICS
    )


def _topic(topic: TopicImage, shown: range) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE if p.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=p.leader,
                leader_epoch=p.leader_epoch,
                replica_nodes=list(p.replicas),
                isr_nodes=list(p.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index in shown
            for p in (topic.partitions[index],)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
