"""The place where a command starts to read: beginning, end, an offset, or a time."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.fetcher import Late
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import all_or_raise, ends_of_epochs, list_offsets, starts_of

BEGINNING = "beginning"
END = "end"
OFFSET = "offset"
TIME = "time"


class Start(NamedTuple):
    """A place in every partition; ``number`` is an offset or ms since the epoch.

    A negative offset counts back from the end.
    """

    kind: str
    number: int = 0


async def start_positions(
    cluster: Cluster, partitions: Iterable[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """The offset of each partition to start with; KafkaError."""
    return await _positions(cluster, dict.fromkeys(partitions, -1), start, once=False)


def late(cluster: Cluster, epochs: Mapping[TopicPartition, int], start: Start) -> Late:
    """Partitions without a leader, which begin where they would have begun with one.

    Nothing is written without a leader, so their end is that of the present leader epoch.
    """

    async def place(found: list[TopicPartition]) -> dict[TopicPartition, int]:
        return await _positions(cluster, {one: epochs[one] for one in found}, start, once=True)

    return Late(list(epochs), place)


async def _positions(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], start: Start, *, once: bool
) -> dict[TopicPartition, int]:
    """Where partitions start that end with their leader epoch; -1 stands for the present end."""
    if start.kind == BEGINNING:
        return await starts_of(cluster, epochs, once=once)
    if start.kind == OFFSET and start.number >= 0:
        return dict.fromkeys(epochs, start.number)
    ends = await ends_of_epochs(cluster, epochs, once=once)
    if start.kind == END:
        return ends
    if start.kind == TIME:
        wanted = dict.fromkeys(epochs, start.number)
        found = all_or_raise(await list_offsets(cluster, wanted, once=once))
        return {one: ends[one] if offset < 0 else offset for one, offset in found.items()}
    starts = await starts_of(cluster, epochs, once=once)
    return {one: max(starts[one], ends[one] + start.number) for one in epochs}


async def partitions_of_topics(
    cluster: Cluster, names: Iterable[str], only: Iterable[int] | None = None
) -> list[TopicPartition]:
    """All partitions of topics, or some of them by number; KafkaError."""
    found = await cluster.topics(list(names))
    numbers = None if only is None else set(only)
    return sorted(
        TopicPartition(name, row.partition_index)
        for name, topic in found.items()
        for row in topic.partitions
        if numbers is None or row.partition_index in numbers
    )


def is_meant(
    partition: TopicPartition, topics: Collection[tuple[str, Collection[int] | None]]
) -> bool:
    """Whether a partition is among those of ``TOPIC[:N]`` arguments; without any all are."""
    return not topics or any(
        name == partition.topic and (numbers is None or partition.partition in numbers)
        for name, numbers in topics
    )
