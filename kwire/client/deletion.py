"""Deleting records before an offset (DeleteRecords)."""

from collections.abc import Mapping

from kwire.client.cluster import Cluster
from kwire.client.leaders import TopicPartition, ask_leaders
from kwire.client.offsets import by_topic
from kwire.errors import KafkaError
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Delete the records before an offset of each partition; its new log start offset."""

    async def ask(
        node: int, mine: dict[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, int]]:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=one.partition, offset=mine[one])
                        for one in group
                    ],
                )
                for topic, group in by_topic(mine)
            ],
            timeout_ms=int(cluster.settings.request_timeout_s * 1000),
        )
        answer = await cluster.ask(request, DeleteRecordsResponse, node=node)
        return {
            TopicPartition(topic.name, row.partition_index): (row.error_code, row.low_watermark)
            for topic in answer.topics
            for row in topic.partitions
        }

    return await ask_leaders(cluster, before, ask)
