"""Writing records: batches for several partitions in one Produce to each leader.

A producer has one request in flight for each partition, so that records stay in order without
idempotence. A batch whose answer is lost is sent again only if its caller allows duplicates.
"""

from collections.abc import Mapping

from kwire.client.cluster import Cluster
from kwire.client.leaders import TopicPartition, ask_leaders
from kwire.client.offsets import by_topic
from kwire.errors import KafkaError
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_NEWEST_WITH_NAMES = 12
_NEWEST_WITH_ADDED_PARTITIONS = 11
"""From version 12 on, producing to a partition adds it to the transaction (KIP-890)."""
NO_OFFSET = -1


async def produce(
    cluster: Cluster,
    batches: Mapping[TopicPartition, bytes],
    *,
    acks: int = -1,
    timeout_ms: int = 30_000,
    repeats_lost: bool = True,
    transactional_id: str | None = None,
) -> dict[TopicPartition, int | KafkaError]:
    """Write one batch to each partition; the base offset of each, or its error.

    With ``acks`` 0 there is no answer: the offsets are NO_OFFSET. With ``transactional_id``, the
    batches belong to a transaction, to which their partitions have been added.
    """

    async def ask(
        node: int, mine: dict[TopicPartition, bytes]
    ) -> dict[TopicPartition, tuple[int, int]]:
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[
                        PartitionProduceData(index=one.partition, records=mine[one])
                        for one in group
                    ],
                )
                for topic, group in by_topic(mine)
            ],
        )
        if acks == 0:
            await (await cluster.peer(node)).tell(request, at_most=_NEWEST_WITH_NAMES)
            return dict.fromkeys(mine, (0, NO_OFFSET))
        answer = await cluster.ask(
            request,
            ProduceResponse,
            node=node,
            at_most=_NEWEST_WITH_NAMES
            if transactional_id is None
            else _NEWEST_WITH_ADDED_PARTITIONS,
            timeout_s=cluster.settings.request_timeout_s + timeout_ms / 1000,
        )
        return {
            TopicPartition(topic.name, row.index): (row.error_code, row.base_offset)
            for topic in answer.responses
            for row in topic.partition_responses
        }

    return await ask_leaders(cluster, batches, ask, repeats_lost=repeats_lost)
