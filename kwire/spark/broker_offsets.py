"""Reads from the broker which offsets of partitions hold records that consumers see.

Rules:

- Records are read and forgotten; only runs of offsets are kept (``offset_runs``).
- With ``read_committed`` the reading ends at the last stable offset, else at the high watermark.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import trio

from kwire.client.cluster import Cluster
from kwire.client.configs import Resource, ResourceType, describe_configs
from kwire.client.errors import ClientError
from kwire.client.fetcher import Fetcher
from kwire.client.leaders import TopicPartition, first_error
from kwire.client.offsets import ends_of, starts_of
from kwire.errors import KafkaError
from kwire.spark.comparison import BrokerOffsets, Partition
from kwire.spark.odd_records import Unreadable, readable
from kwire.spark.offset_runs import OffsetRuns, union
from kwire.spark.reporting import Report, silent
from kwire.spark.settings import Source
from kwire.spark.source_client import open_source

T = TypeVar("T")


def ask_broker(source: Source, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Run ``work`` with a client of the source's cluster.

    WrongSetting, and RuntimeError with one line if the cluster can't be reached.
    """

    async def whole() -> T:
        async with open_source(source) as cluster:
            return await work(cluster)

    try:
        return trio.run(whole)
    except (ClientError, KafkaError) as error:
        raise RuntimeError(f"{source.bootstrap_servers}: {error}") from error


async def broker_offsets(
    cluster: Cluster,
    ranges: Mapping[Partition, tuple[int, int]],
    *,
    read_committed: bool = True,
    skipped: Mapping[Partition, OffsetRuns] = MappingProxyType({}),
    report: Report = silent,
) -> dict[Partition, BrokerOffsets]:
    """The broker's offsets of each partition between a first and an end offset; KafkaError.

    ``skipped`` has the offsets at which records without a value are counted apart.
    """
    wanted = [TopicPartition(*place) for place in ranges]
    starts = await starts_of(cluster, wanted)
    ends = await ends_of(cluster, wanted, read_committed=read_committed)
    compacted = await _compacted_topics(cluster, {one.topic for one in wanted})
    found = {
        one: BrokerOffsets(OffsetRuns(), starts[one], ends[one], one.topic in compacted)
        for one in wanted
    }
    spans = {}
    for one in wanted:
        first, end = max(ranges[one][0], starts[one]), min(ranges[one][1], ends[one])
        if first < end:
            spans[one] = (first, end)
    await _read(cluster, spans, found, read_committed, report)
    for one, there in found.items():
        _set_apart(there, skipped.get((one.topic, one.partition), OffsetRuns()))
    return {(one.topic, one.partition): offsets for one, offsets in found.items()}


async def _read(
    cluster: Cluster,
    spans: Mapping[TopicPartition, tuple[int, int]],
    found: Mapping[TopicPartition, BrokerOffsets],
    read_committed: bool,
    report: Report,
) -> None:
    """Read the spans to their ends, into ``found``; records without a value as ``skipped``."""
    if not spans:
        return
    total = sum(end - first for first, end in spans.values())
    to_read = {one: end - first for one, (first, end) in spans.items()}

    def moved(partition: TopicPartition, _position: int, start: int) -> None:
        found[partition].start = start  # retention has deleted records meanwhile

    positions = {one: first for one, (first, _) in spans.items()}
    fetcher = Fetcher(
        cluster,
        positions,
        read_committed=read_committed,
        moved=moved,
        read=lambda batch: readable(batch, {}),
    )
    left = set(spans)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher.run)
            while left:
                fetched = await fetcher.next()
                one = fetched.partition
                if one not in left:
                    continue
                end = spans[one][1]
                for record in fetched.records:
                    if record.offset < end:
                        is_tombstone = record.value is None and not isinstance(record, Unreadable)
                        runs = found[one].skipped if is_tombstone else found[one].records
                        runs.add(record.offset, record.offset + 1)
                to_read[one] = max(end - fetched.next_offset, 0)
                report("reading the broker's offsets", total - sum(to_read.values()), total)
                if fetched.next_offset >= end:
                    left.discard(one)
                    fetcher.pause(one)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def _set_apart(found: BrokerOffsets, skipped: OffsetRuns) -> None:
    """Tombstones that aren't skipped are records as others are."""
    found.records = union([found.records, found.skipped.minus(skipped)])[0]
    found.skipped = found.skipped.both(skipped)


async def _compacted_topics(cluster: Cluster, topics: set[str]) -> set[str]:
    """The topics whose cleanup policy includes compaction."""
    compacted = set()
    for topic in sorted(topics):
        resource = Resource(ResourceType.TOPIC, topic)
        for result in await describe_configs(cluster, resource, ["cleanup.policy"]):
            if "compact" in (result.value or ""):
                compacted.add(topic)
    return compacted
