"""Reads partitions from a start to an end offset, and prints their records."""

import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from itertools import accumulate

import trio

from kwire.cli.leaderless import Leaderless
from kwire.cli.printing import Printer
from kwire.client.cluster import Cluster
from kwire.client.fetcher import Fetched, Fetcher, Late
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import ends_of, starts_of
from kwire.record.records import Record

LEAST_STEP = 1000
"""The least number of offsets by which ``--tail`` goes further back."""


class Reader:
    """Reads records and prints them.

    ``done`` maps each partition to the offset at which reading continues.
    """

    def __init__(self, cluster: Cluster, printer: Printer, *, read_committed: bool) -> None:
        self.done: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self.printer = printer
        self.leaderless = Leaderless(cluster)
        self._read_committed = read_committed

    async def ends(self, partitions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The present end of each partition."""
        return await ends_of(self._cluster, partitions, read_committed=self._read_committed)

    async def starts(self, partitions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await starts_of(self._cluster, partitions)

    async def read(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        ends: Mapping[TopicPartition, int] | None = None,
        late: Late | None = None,
        take: Callable[[TopicPartition, list[Record]], Awaitable[int | None]] | None = None,
        after: Callable[[], Awaitable[None]] | None = None,
        stop: Callable[[], Awaitable[None]] | None = None,
    ) -> bool:
        """Read until the ends, until enough is printed, or until ``stop`` returns.

        Without ``ends`` a partition without a leader holds up no other one, and those in ``late``
        begin when they have one.
        ``take`` gets the records instead of the printer; ``after`` is awaited after each fetch.
        Returns False if it was stopped.
        """
        left = {one for one in positions if ends is None or positions[one] < ends[one]}
        left.update(late.partitions if late is not None else ())
        self.done = dict(positions)
        fetcher = Fetcher(
            self._cluster,
            {one: positions[one] for one in left if one in positions},
            read_committed=self._read_committed,
            moved=_warn_of_a_gap,
            leaderless=self.leaderless.now if ends is None else None,
            late=late,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher.run)
            while left and not self.printer.is_full:
                fetched = await _next(fetcher, stop)
                if fetched is None:
                    break
                end = ends[fetched.partition] if ends is not None else None
                await self._print_fetched(fetched, end, take or self.printer.put)
                if end is not None and fetched.next_offset >= end:
                    fetcher.pause(fetched.partition)
                    left.discard(fetched.partition)
                if after is not None:
                    await after()
            nursery.cancel_scope.cancel()
        return not left or self.printer.is_full

    async def _print_fetched(
        self,
        fetched: Fetched,
        end: int | None,
        take: Callable[[TopicPartition, list[Record]], Awaitable[int | None]],
    ) -> None:
        """Print fetched records, and note their last offset."""
        found = fetched.records
        if end is not None:
            found = [record for record in found if record.offset < end]
        try:
            next_offset = await take(fetched.partition, found)
        except BaseException:  # Ctrl-C, which may come between the last byte and this note of it
            if self.printer.has_written and not self.printer.is_full:
                self.done[fetched.partition] = fetched.next_offset
            raise
        if self.printer.is_full and next_offset is not None:
            self.done[fetched.partition] = next_offset
        elif not self.printer.is_full:
            self.done[fetched.partition] = fetched.next_offset


async def _next(fetcher: Fetcher, stop: Callable[[], Awaitable[None]] | None) -> Fetched | None:
    """The records that were read next, None if ``stop`` returns before."""
    if stop is None:
        return await fetcher.next()
    fetched: Fetched | None = None
    async with trio.open_nursery() as nursery:

        async def end(stop: Callable[[], Awaitable[None]]) -> None:
            await stop()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end, stop)
        fetched = await fetcher.next()
        nursery.cancel_scope.cancel()
    return fetched


async def print_tail(
    reader: Reader, positions: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """Print the last ``most`` records of all partitions: of each its newest, in their order.

    Partitions are merged by time. The time of a record is the latest timestamp of its partition
    until there, so that timestamps that run backward neither break the order of a partition nor
    leave out its newest offsets.

    Returns the offset of each partition at which reading continues. ``positions`` are the offsets
    at which to begin, ``most`` before the end of each partition. Fewer records than ``most`` may
    follow there: some offsets belong to transaction markers, to records that were compacted away,
    or to records that a filter leaves out. Then this reads again, from further and further back.
    """
    ends = await reader.ends(positions)
    kept: dict[TopicPartition, list[Record]] = {one: [] for one in positions}
    found_now: dict[TopicPartition, deque[Record]] = {}

    async def take(partition: TopicPartition, records: list[Record]) -> int | None:
        found_now[partition].extend(filter(reader.printer.keeps, records))
        return None

    starts = await reader.starts(positions)
    step = most
    first, last = dict(positions), ends
    while first and most:
        found_now = {one: deque(maxlen=most) for one in first}
        await reader.read(first, ends=last, take=take)
        for one, found in found_now.items():
            kept[one] = [*found, *kept[one]][-most:]
        step = max(2 * step, LEAST_STEP)
        short = [one for one in first if len(kept[one]) < most and first[one] > starts[one]]
        last = {one: min(first[one], ends[one]) for one in short}
        first = {one: max(starts[one], last[one] - step) for one in short}
    for _, partition, _, record in _merged(kept)[-most:]:
        await reader.printer.put(partition, [record])
    return ends


def _merged(
    found: Mapping[TopicPartition, list[Record]],
) -> list[tuple[int, TopicPartition, int, Record]]:
    """Records with the latest timestamp of their partition until there, sorted by it."""
    entries = []
    for partition, records in found.items():
        latest = accumulate((record.timestamp for record in records), max)
        entries += [
            (at, partition, record.offset, record)
            for at, record in zip(latest, records, strict=True)
        ]
    return sorted(entries)


def _warn_of_a_gap(partition: TopicPartition, asked: int, start: int) -> None:
    text = f"offset {asked} of {partition} is deleted: reading goes on at {start}"
    print(f"kwire: {text}", file=sys.stderr)
