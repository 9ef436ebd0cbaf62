"""Offsets of partitions: the first, the last, by time (ListOffsets), and by leader epoch."""

from collections.abc import Iterable, Mapping

from kwire.client.cluster import Cluster
from kwire.client.leaders import TopicPartition, ask_leaders
from kwire.errors import KafkaError
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST = -1
EARLIEST = -2
"""Special timestamps of ListOffsets."""


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    once: bool = False,
) -> dict[TopicPartition, int | KafkaError]:
    """The offset for a timestamp of each partition, or its error.

    A timestamp is LATEST, EARLIEST, or ms since the epoch: then the offset is that of the first
    record at or after that time, -1 if there is none. With ``once`` no leader is asked again.
    """

    async def ask(
        node: int, mine: dict[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, int]]:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=one.partition, timestamp=mine[one])
                        for one in group
                    ],
                )
                for topic, group in by_topic(mine)
            ],
            timeout_ms=int(cluster.settings.request_timeout_s * 1000),
        )
        answer = await cluster.ask(request, ListOffsetsResponse, node=node)
        return {
            TopicPartition(topic.name, row.partition_index): (row.error_code, row.offset)
            for topic in answer.topics
            for row in topic.partitions
        }

    return await ask_leaders(cluster, wanted, ask, once=once)


async def ends_of(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    *,
    read_committed: bool = False,
    once: bool = False,
) -> dict[TopicPartition, int]:
    """The high watermark of each partition; with ``read_committed`` the last stable offset."""
    wanted = dict.fromkeys(partitions, LATEST)
    found = await list_offsets(cluster, wanted, read_committed=read_committed, once=once)
    return all_or_raise(found)


async def starts_of(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, once: bool = False
) -> dict[TopicPartition, int]:
    """The log start offset of each partition."""
    wanted = dict.fromkeys(partitions, EARLIEST)
    return all_or_raise(await list_offsets(cluster, wanted, once=once))


async def ends_of_epochs(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], *, once: bool = False
) -> dict[TopicPartition, int]:
    """The offset of the first record after a leader epoch of each partition (KIP-320).

    This is the present end if no record is newer, or if the epoch is -1, which means unknown.
    """

    async def ask(
        node: int, mine: dict[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, int]]:
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderPartition(partition=one.partition, leader_epoch=mine[one])
                        for one in group
                    ],
                )
                for topic, group in by_topic(mine)
            ],
        )
        answer = await cluster.ask(request, OffsetForLeaderEpochResponse, node=node)
        return {
            TopicPartition(topic.topic, row.partition): (row.error_code, row.end_offset)
            for topic in answer.topics
            for row in topic.partitions
        }

    ends = await ends_of(cluster, epochs, once=once)  # first: they hold if no epoch is newer then
    known = {one: epoch for one, epoch in epochs.items() if epoch >= 0}
    found: dict[TopicPartition, int | KafkaError]
    found = await ask_leaders(cluster, known, ask, once=once)
    return ends | {one: offset for one, offset in all_or_raise(found).items() if offset >= 0}


def all_or_raise(found: Mapping[TopicPartition, int | KafkaError]) -> dict[TopicPartition, int]:
    """The values, or the first error."""
    values = {}
    for partition, value in found.items():
        if isinstance(value, KafkaError):
            raise value
        values[partition] = value
    return values


def by_topic(
    partitions: Iterable[TopicPartition],
) -> Iterable[tuple[str, list[TopicPartition]]]:
    """Partitions by topic; topics and partitions stay in order."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics.items()
