"""The committed offsets of a group: fetch, commit, delete."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kwire.client.cluster import Cluster, check
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import by_topic
from kwire.errors import KafkaError
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

_NEWEST_WITH_NAMES = 9
_NEWEST_FOR_ONE_GROUP = 7


async def committed_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """The committed offset of each partition that has one; None stands for all partitions.

    Offsets of transactions that are still open don't count. KafkaError.
    """
    wanted = None if partitions is None else list(by_topic(partitions))
    request = OffsetFetchRequest(
        group_id="",
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if wanted is None
                else [
                    OffsetFetchRequestTopics(
                        name=name, partition_indexes=[one.partition for one in mine]
                    )
                    for name, mine in wanted
                ],
            )
        ],
    )
    peer = await cluster.any_peer()
    newest = (await peer.served()).ranges.get(OffsetFetchRequest.API_KEY, (0, 0))[1]
    if newest <= _NEWEST_FOR_ONE_GROUP:
        request = OffsetFetchRequest(
            group_id=group,
            topics=None
            if wanted is None
            else [
                OffsetFetchRequestTopic(
                    name=name, partition_indexes=[one.partition for one in mine]
                )
                for name, mine in wanted
            ],
        )
    answer = await cluster.ask_coordinator(
        group,
        request,
        OffsetFetchResponse,
        lambda answer: [answer.error_code, *(found.error_code for found in answer.groups)],
        at_most=_NEWEST_WITH_NAMES,
    )
    found = answer.groups[0] if answer.groups else answer
    check(found.error_code, f"group {group}")
    offsets = {}
    for topic in found.topics:
        for row in topic.partitions:
            check(row.error_code, f"group {group}, {topic.name}-{row.partition_index}")
            if row.committed_offset >= 0:
                offsets[TopicPartition(topic.name, row.partition_index)] = row.committed_offset
    return offsets


async def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, int],
    member_id: str = "",
    generation: int = -1,
    notes: Mapping[TopicPartition, str] = MappingProxyType({}),
) -> None:
    """Commit offsets, as a member or for a group without members; KafkaError.

    ``notes`` has the metadata of offsets that get some.
    """
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=one.partition,
                        committed_offset=offsets[one],
                        committed_metadata=notes.get(one, ""),
                    )
                    for one in mine
                ],
            )
            for name, mine in by_topic(offsets)
        ],
    )
    answer = await cluster.ask_coordinator(
        group, request, OffsetCommitResponse, _commit_codes, at_most=_NEWEST_WITH_NAMES
    )
    for topic in answer.topics:
        for row in topic.partitions:
            check(row.error_code, f"commit of group {group}, {topic.name}-{row.partition_index}")


def _commit_codes(answer: OffsetCommitResponse) -> list[int]:
    return [row.error_code for topic in answer.topics for row in topic.partitions]


async def delete_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Delete committed offsets of a group; the error of each partition, None after success."""
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=one.partition) for one in mine
                ],
            )
            for name, mine in by_topic(partitions)
        ],
    )
    answer = await cluster.ask_coordinator(
        group, request, OffsetDeleteResponse, lambda answer: [answer.error_code]
    )
    check(answer.error_code, f"group {group}")
    results: dict[TopicPartition, KafkaError | None] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            one = TopicPartition(topic.name, row.partition_index)
            try:
                check(row.error_code, f"group {group}, {one}")
                results[one] = None
            except KafkaError as error:
                results[one] = error
    return results
