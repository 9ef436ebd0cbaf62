"""Asking a leader where its logs begin and end, for a follower that is outside of them."""

from collections.abc import Sequence
from typing import NamedTuple

from kwire.broker.follower_partition import FollowerPartition
from kwire.client.peer import Peer
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2


class Ends(NamedTuple):
    """The log start offset and the log end offset of a leader."""

    start: int
    end: int


async def ends_of(
    peer: Peer, node_id: int, partitions: Sequence[FollowerPartition]
) -> dict[FollowerPartition, Ends]:
    """The ends of each partition that the leader tells; a ClientError if it doesn't answer."""
    starts = await _ask(peer, node_id, partitions, EARLIEST)
    ends = await _ask(peer, node_id, partitions, LATEST)
    return {
        one: Ends(starts[one.topic, one.index], ends[one.topic, one.index])
        for one in partitions
        if (one.topic, one.index) in starts.keys() & ends.keys()
    }


async def _ask(
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
