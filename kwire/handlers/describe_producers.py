"""DescribeProducers: the producers that a partition knows, and their open transactions.

Behavior: each replica answers, because an administrator may want to compare them
(``kafka-transactions --broker-id``). All other APIs that read one partition ask for its leader,
apart from Fetch (``kwire.handlers.lib.nearest_replica``).

Source: ReplicaManager.activeProducerState of Kafka.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import READ, each
from kwire.handlers.lib.slices import give_way, pieces
from kwire.log.producer_entry import ProducerEntry
from kwire.metadata.controller import check_topic_name
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

BYTES = 40


RIGHTS = (each("topics", READ),)


async def handle(
    request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    """Answer every partition; a repeated partition has the same answer again."""
    work = context.work
    described: dict[tuple[str, int], PartitionResponse] = {}
    topics = []
    for topic in request.topics:
        answer = TopicResponse(name=topic.name, partitions=[])
        topics.append(answer)
        await give_way(work)
        for index in topic.partition_indexes:
            await give_way(work)
            found = described.get((topic.name, index))
            if found is None:
                found = await _partition(topic.name, index, context)
                described[topic.name, index] = found
            work.answer(BYTES * (1 + len(found.active_producers)))
            answer.partitions.append(found)
    return DescribeProducersResponse(topics=topics)


async def _partition(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    work = context.work
    await give_way(work)
    try:
        check_topic_name(topic)
        broker = context.broker
        replica = broker.replica(topic, index) or broker.partition(topic, index)
        replica.log.health.check()
        producers = replica.log.producers.producers
    except KafkaError as error:
        code, message = error.code, error.message or None
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            message = "This server does not host this topic-partition."
        return PartitionResponse(partition_index=index, error_code=code, error_message=message)
    active: list[ProducerState] = []
    for piece in pieces(list(producers.values())):
        await give_way(work)
        active += map(_producer, piece)
    return PartitionResponse(partition_index=index, active_producers=active)


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
