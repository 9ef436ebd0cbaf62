"""Asks a leader for the first and last offsets of its logs, for a follower outside of them."""

import logging
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.client.errors import ClientError
from kwire.client.peer import Peer
from kwire.errors import ErrorCode
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

log = logging.getLogger(__name__)

LATEST = -1
EARLIEST = -2

Truncations: TypeAlias = list[tuple[FollowerPartition, int, bool]]
"""Logs, the offset at which each is truncated, and whether it begins anew there."""


class LogOffsets(NamedTuple):
    """The log start offset and the log end offset of a leader."""

    start: int
    end: int


async def truncations_into_range(
    peer: Peer, leader: int, node_id: int, lost: Sequence[FollowerPartition]
) -> tuple[Truncations, list[tuple[FollowerPartition, ErrorCode]]]:
    """The truncations of logs outside of their leader's logs, and the partitions without one.

    Source: handleOutOfRangeError of Kafka.
    """
    try:
        ends = await fetch_log_offsets(peer, node_id, lost)
    except ClientError as error:
        log.info("asking broker %d for offsets: %s", leader, error)
        ends = {}
    truncations: Truncations = []
    failed = []
    for partition in lost:
        found, end_offset = ends.get(partition), partition.log.log_end_offset
        if found is None:
            failed.append((partition, ErrorCode.OFFSET_NOT_AVAILABLE))
        elif found.end < end_offset:
            truncations.append((partition, found.end, False))
        elif found.start > end_offset:
            truncations.append((partition, found.start, True))
        else:  # the leader's log has grown meanwhile, or the next fetch is refused again
            failed.append((partition, ErrorCode.OFFSET_OUT_OF_RANGE))
    return truncations, failed


async def fetch_log_offsets(
    peer: Peer, node_id: int, partitions: Sequence[FollowerPartition]
) -> dict[FollowerPartition, LogOffsets]:
    """The ends of each partition that the leader reports; ClientError if it doesn't answer."""
    starts = await _list_offsets(peer, node_id, partitions, EARLIEST)
    ends = await _list_offsets(peer, node_id, partitions, LATEST)
    return {
        one: LogOffsets(starts[one.topic, one.index], ends[one.topic, one.index])
        for one in partitions
        if (one.topic, one.index) in starts.keys() & ends.keys()
    }


async def _list_offsets(
    peer: Peer, node_id: int, partitions: Sequence[FollowerPartition], timestamp: int
) -> dict[tuple[str, int], int]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for one in partitions:
        by_topic.setdefault(one.topic, []).append(
            ListOffsetsPartition(
                partition_index=one.index,
                current_leader_epoch=one.leader_epoch,
                timestamp=timestamp,
            )
        )
    request = ListOffsetsRequest(
        replica_id=node_id,
        topics=[ListOffsetsTopic(name=name, partitions=some) for name, some in by_topic.items()],
    )
    response = await peer.ask(request, ListOffsetsResponse)
    return {
        (topic.name, found.partition_index): found.offset
        for topic in response.topics
        for found in topic.partitions
        if not found.error_code and found.offset >= 0
    }
