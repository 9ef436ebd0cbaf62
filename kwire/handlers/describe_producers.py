"""DescribeProducers: the producers that a partition knows, and their open transactions."""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.log.producer_entry import ProducerEntry
from kwire.metadata.controller import check_topic_name
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    """Answer every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _partition(topic.name, index, context) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _partition(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    try:
        check_topic_name(topic)
        producers = context.broker.partition(topic, index).log.producers.producers
    except KafkaError as error:
        code, message = error.code, error.message or None
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            message = "This server does not host this topic-partition."
        return PartitionResponse(partition_index=index, error_code=code, error_message=message)
    return PartitionResponse(
        partition_index=index, active_producers=[_producer(one) for one in producers.values()]
    )


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
