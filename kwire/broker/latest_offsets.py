"""The latest offsets of partitions, asked of their leaders: for the lag of share groups."""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from kwire.broker.partition import Partition
from kwire.broker.peers import Peers
from kwire.errors import KafkaError
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

Place: TypeAlias = tuple[str, int]
"""A topic's name, and the index of a partition."""

LATEST = -1
VERSION = 10


class LatestOffsetsBroker(Protocol):
    """A broker, for those who ask for latest offsets."""

    node_id: int
    image: MetadataImage

    @property
    def peers(self) -> Peers:
        """The other brokers."""

    def partition_if_served(self, topic: str, index: int) -> Partition | None:
        """A partition by name, None if it isn't here."""


async def latest_offsets(
    broker: LatestOffsetsBroker, places: Iterable[Place], *, read_committed: bool
) -> Mapping[Place, int]:
    """The latest offset of each partition; those whose leader can't tell are left out."""
    found: dict[Place, int] = {}
    elsewhere: dict[int, list[Place]] = {}
    for place in places:
        leader = _leader_of(broker.image, place)
        if leader != broker.node_id:
            elsewhere.setdefault(leader, []).append(place)
        elif (partition := broker.partition_if_served(*place)) is not None:
            found[place] = (
                partition.last_stable_offset if read_committed else partition.high_watermark
            )
    for leader, some in elsewhere.items():
        try:
            answer = await broker.peers.ask(
                leader, _request(some, read_committed), ListOffsetsResponse, version=VERSION
            )
        except KafkaError:
            continue  # their lag is unknown
        for topic in answer.topics:
            for row in topic.partitions:
                if not row.error_code:
                    found[topic.name, row.partition_index] = row.offset
    return found


def _leader_of(image: MetadataImage, place: Place) -> int:
    topic = image.topics_by_name.get(place[0])
    if topic is None or place[1] >= len(topic.partitions):
        return -1
    return topic.partitions[place[1]].leader


def _request(places: Iterable[Place], read_committed: bool) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in places:
        topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
        topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=int(read_committed), topics=list(topics.values())
    )
