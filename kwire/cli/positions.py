"""The place where a command starts to read: beginning, end, an offset, or a time."""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.fetcher import Late
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import all_or_raise, ends_of, list_offsets, starts_of

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
    wanted = list(partitions)
    if start.kind == BEGINNING:
        return await starts_of(cluster, wanted)
    if start.kind == OFFSET and start.number >= 0:
        return dict.fromkeys(wanted, start.number)
    ends = await ends_of(cluster, wanted)
    if start.kind == END:
        return ends
    if start.kind == TIME:
        found = all_or_raise(await list_offsets(cluster, dict.fromkeys(wanted, start.number)))
        return {one: ends[one] if offset < 0 else offset for one, offset in found.items()}
    starts = await starts_of(cluster, wanted)
    return {one: max(starts[one], ends[one] + start.number) for one in wanted}


def late(cluster: Cluster, partitions: Iterable[TopicPartition], start: Start) -> Late:
    """Partitions without a leader, which begin at ``start`` when they have one."""
    return Late(list(partitions), partial(start_positions, cluster, start=start))


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
