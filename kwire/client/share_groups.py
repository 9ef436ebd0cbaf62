"""Share groups: their start offsets, and what brokers know of their records in flight."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kwire.client.cluster import Cluster, check
from kwire.client.errors import AnswerTimeout, ConnectionLost, error_of
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import by_topic
from kwire.errors import KafkaError
from kwire.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from kwire.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from kwire.protocol.messages.explain_share_group import (
    ExplainShareGroupRequest,
    ExplainShareGroupResponse,
    SharePartitionData,
)

STATES = ("available", "acquired", "acknowledged", "archiving", "archived")
"""The states of records, by their number in Kafka's RecordState."""


class ShareOffset(NamedTuple):
    """Where a partition begins for a share group, and how many records are left, if known."""

    start_offset: int | None
    lag: int | None


async def share_offsets(cluster: Cluster, group: str) -> dict[TopicPartition, ShareOffset]:
    """The partitions that have a state; KafkaError."""
    answer = await cluster.ask_coordinator(
        group,
        DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
        ),
        DescribeShareGroupOffsetsResponse,
        lambda answer: [row.error_code for row in answer.groups],
    )
    [found] = answer.groups
    check(found.error_code, found.error_message or f"group {group}")
    offsets = {}
    for topic in found.topics:
        for row in topic.partitions:
            one = TopicPartition(topic.topic_name, row.partition_index)
            check(row.error_code, row.error_message or f"group {group}, {one}")
            known = row.start_offset >= 0
            offsets[one] = ShareOffset(
                row.start_offset if known else None, row.lag if row.lag >= 0 else None
            )
    return offsets


async def alter_share_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None]:
    """Set start offsets of a group without members; the error of each, None after success."""
    request = AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=one.partition, start_offset=offsets[one]
                    )
                    for one in mine
                ],
            )
            for name, mine in by_topic(offsets)
        ],
    )
    answer = await cluster.ask_coordinator(
        group, request, AlterShareGroupOffsetsResponse, lambda answer: [answer.error_code]
    )
    check(answer.error_code, answer.error_message or f"group {group}")
    return {
        TopicPartition(topic.topic_name, row.partition_index): error_of(
            row.error_code, row.error_message, f"{topic.topic_name}-{row.partition_index}"
        )
        for topic in answer.responses
        for row in topic.partitions
    }


async def delete_share_offsets(
    cluster: Cluster, group: str, topics: Iterable[str]
) -> dict[str, KafkaError | None]:
    """Delete the states of topics in a group without members; the error of each topic."""
    request = DeleteShareGroupOffsetsRequest(
        group_id=group,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
    )
    answer = await cluster.ask_coordinator(
        group, request, DeleteShareGroupOffsetsResponse, lambda answer: [answer.error_code]
    )
    check(answer.error_code, answer.error_message or f"group {group}")
    return {
        topic.topic_name: error_of(
            topic.error_code, topic.error_message, f"topic {topic.topic_name}"
        )
        for topic in answer.responses
    }


async def explain_share_group(
    cluster: Cluster, group: str, max_ranges: int
) -> list[ExplainShareGroupResponse]:
    """What each broker knows of the records in flight; KafkaError.

    Only kwire's brokers know the request. ConnectionLost if another one ends the connection.
    """
    found = []
    for node in await cluster.nodes():
        request = ExplainShareGroupRequest(group_id=group, max_ranges=max_ranges)
        try:
            answer = await cluster.ask(request, ExplainShareGroupResponse, node=node, version=0)
        except AnswerTimeout:
            raise
        except ConnectionLost as error:
            raise ConnectionLost("", f"{error}: is it a kwire broker?") from error
        check(answer.error_code, f"group {group}")
        found.append(answer)
    return found


def waiting_records(one: SharePartitionData) -> int:
    """How many records of a partition no member has and none has finished."""
    return max(0, one.end_offset - one.next_offset) + one.available


def state_name(state: int) -> str:
    """A state of records in words."""
    return STATES[state] if 0 <= state < len(STATES) else str(state)
