"""Reading partitions: one Fetch in flight for each leader, batches handed on as they come.

Rules:

- Fetch is sent without a session, with the names of topics (version 12 at the most), so that it
  works with every broker.
- If an offset has been deleted meanwhile, reading continues at the log start offset, as with
  ``auto.offset.reset=earliest``, and the caller learns it. An offset beyond the end is an error.
- If a partition has no leader, nothing is read until it has one. A caller that takes
  ``leaderless`` reads the other partitions meanwhile, unless no partition has a leader. Partitions
  that are ``late`` get their positions when they have a leader, while the others are read.
- A leader that doesn't answer is asked again for ``give_up_s``, and the others are read meanwhile.
  Then its failure ends the reading, however well the others answer.
- With ``read_committed`` the records of aborted transactions are left out, by the list of aborted
  transactions in the answer (Fetcher.CompletedFetch of Kafka).
- ``read`` checks a batch and gives its records. A caller that goes on after a batch that can't be
  read takes another one than ``checked_records``.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import trio

from kwire.client.cluster import TRY_AGAIN, Cluster
from kwire.client.leaders import TopicPartition, find_leaders, first_error
from kwire.client.offsets import by_topic, ends_of, starts_of
from kwire.client.retries import FAILURES, Retries
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.record.batch import Buffer, RecordBatch, complete_batches
from kwire.record.control import ControlType, control_type
from kwire.record.records import Record, records

_NEWEST_WITH_NAMES = 12
_MAX_BYTES = 16 * 1024 * 1024


class Fetched(NamedTuple):
    """The result of reading a partition: records, and the offset after them."""

    partition: TopicPartition
    records: list[Record]
    next_offset: int
    end: int
    """The high watermark, or the last stable offset with ``read_committed``."""


class Late(NamedTuple):
    """Partitions without a leader; ``place`` gives the positions of those that have one now.

    It asks each leader once; an error of TRY_AGAIN makes the Fetcher call it again.
    """

    partitions: Sequence[TopicPartition]
    place: Callable[[list[TopicPartition]], Awaitable[dict[TopicPartition, int]]]


def checked_records(batch: RecordBatch) -> Iterator[Record]:
    """The records of a batch whose checksum is right; InvalidRecords."""
    batch.verify_crc()
    return records(batch)


class Fetcher:
    """Reads partitions from ``positions`` on, which advance with the records handed on."""

    def __init__(
        self,
        cluster: Cluster,
        positions: dict[TopicPartition, int],
        *,
        read_committed: bool = False,
        max_wait_ms: int = 500,
        partition_max_bytes: int = 1024 * 1024,
        moved: Callable[[TopicPartition, int, int], None] = lambda *_: None,
        leaderless: Callable[[list[TopicPartition]], object] | None = None,
        late: Late | None = None,
        read: Callable[[RecordBatch], Iterable[Record]] = checked_records,
    ) -> None:
        self.positions = positions
        self._cluster = cluster
        self._read_committed = read_committed
        self._max_wait_ms = max_wait_ms
        self._partition_max_bytes = partition_max_bytes
        self._moved = moved
        self._leaderless = leaderless
        self._late = late
        self._read = read
        self._unplaced = set(late.partitions if late is not None else ())
        self._paused: set[TopicPartition] = set()
        self._reading, self._placing = Retries(cluster), Retries(cluster)
        self._out, self._in = trio.open_memory_channel[Fetched](0)

    async def next(self) -> Fetched:
        """The next records of any partition; there may be none at the end of a partition."""
        return await self._in.receive()

    def pause(self, partition: TopicPartition) -> None:
        """Stop reading a partition."""
        self._paused.add(partition)

    async def run(self) -> None:
        """Read until cancelled; KafkaError, or a ClientError if a leader is silent for long."""
        backoff = self._cluster.backoff()
        while True:
            asked_s = trio.current_time()
            try:
                by_node, missing = await self._leaders()
            except FAILURES as error:
                await self._reading.pause(None, error, asked_s)
                continue
            self._reading.only(by_node)
            self._placing.only(by_node)
            await self._follow_leaders(by_node, missing)
            if by_node:
                backoff.reset()
            await trio.sleep(backoff.next_s())

    async def _follow_leaders(
        self, by_node: dict[int, list[TopicPartition]], missing: list[TopicPartition]
    ) -> None:
        """Read from the leaders until one of them has changed or failed."""
        try:
            async with trio.open_nursery() as nursery:
                all_ = nursery.cancel_scope
                if missing:
                    nursery.start_soon(self._look_again, missing, all_)
                async with trio.open_nursery() as followers:
                    for node, mine in by_node.items():
                        late = [one for one in mine if one in self._unplaced]
                        if late:
                            followers.start_soon(self._find_positions, node, late, all_)
                        placed = [one for one in mine if one not in self._unplaced]
                        followers.start_soon(self._read_leader, node, placed, all_)
                all_.cancel()
        except BaseExceptionGroup as group:
            raise first_error(group) from group

    async def _leaders(self) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
        """The partitions to read from each leader, and those that have none; KafkaError."""
        by_node: dict[int, list[TopicPartition]] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        wanted = [one for one in (*self.positions, *self._unplaced) if one not in self._paused]
        for partition, leader in (await find_leaders(self._cluster, wanted)).items():
            if not isinstance(leader, KafkaError):
                by_node.setdefault(leader, []).append(partition)
            elif self._leaderless is None or leader.code not in TRY_AGAIN:
                raise leader
            else:
                errors[partition] = leader
        if errors and not by_node:
            raise next(iter(errors.values()))
        if self._leaderless is not None:
            self._leaderless(list(errors))
        return by_node, list(errors)

    async def _find_positions(
        self, node: int, late: list[TopicPartition], all_: trio.CancelScope
    ) -> None:
        """Find where partitions of a leader begin; then all begin anew."""
        assert self._late is not None
        asked_s = trio.current_time()
        try:
            self.positions.update(await self._late.place(late))
        except FAILURES as error:
            await self._placing.pause(node, error, asked_s)
        else:
            self._unplaced.difference_update(late)
            self._placing.succeeded(node)
        all_.cancel()

    async def _look_again(self, missing: list[TopicPartition], all_: trio.CancelScope) -> None:
        """Wait until a partition without a leader has one, or is gone; then all begin anew."""
        assert self._leaderless is not None
        backoff = self._cluster.backoff()
        while True:
            await trio.sleep(backoff.next_s())
            asked_s = trio.current_time()
            try:
                found = await find_leaders(self._cluster, missing)
            except FAILURES as error:
                await self._reading.pause(None, error, asked_s)
                continue
            self._reading.succeeded(None)
            left = [
                one
                for one, leader in found.items()
                if isinstance(leader, KafkaError) and leader.code in TRY_AGAIN
            ]
            if len(left) < len(missing):
                all_.cancel()
                return
            self._leaderless(left)

    async def _read_leader(
        self, node: int, mine: list[TopicPartition], all_: trio.CancelScope
    ) -> None:
        """Read from one leader until it fails, or no longer leads one of the partitions."""
        asked_s = trio.current_time()
        try:
            while wanted := [one for one in mine if one not in self._paused]:
                asked_s = trio.current_time()
                if await self._fetch(node, wanted):
                    all_.cancel()
                mine.append(mine.pop(0))  # a broker fills its answer in the order of the request
        except FAILURES as error:
            await self._reading.pause(node, error, asked_s)
            all_.cancel()

    async def _fetch(self, node: int, wanted: list[TopicPartition]) -> bool:
        """Read once from a leader; returns whether one of the partitions has a new leader."""
        answer = await self._cluster.ask(
            self._request(wanted),
            FetchResponse,
            node=node,
            at_most=_NEWEST_WITH_NAMES,
            timeout_s=self._cluster.settings.request_timeout_s + self._max_wait_ms / 1000,
        )
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), f"fetch from broker {node}")
        self._reading.succeeded(node)
        has_moved = False
        for topic in answer.responses:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                has_moved |= await self._hand_on_records(partition, data)
        return has_moved

    async def _hand_on_records(self, partition: TopicPartition, data: PartitionData) -> bool:
        """Hand on the records of an answer; returns whether the partition has a new leader."""
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._into_range(partition)
            return False
        if data.error_code:
            code = ErrorCode(data.error_code)
            if code in TRY_AGAIN:
                return True
            raise KafkaError(code, str(partition))
        position = self.positions[partition]
        found: list[Record] = []
        kept = _Kept(data.aborted_transactions or ()) if self._read_committed else None
        for batch in complete_batches(_bytes(data)):
            if (kept is None or kept.keeps(batch)) and not batch.is_control:
                found += [record for record in self._read(batch) if record.offset >= position]
            position = max(position, batch.next_offset)
        end = data.last_stable_offset if self._read_committed else data.high_watermark
        await self._out.send(Fetched(partition, found, position, end))
        self.positions[partition] = position
        return False

    async def _into_range(self, partition: TopicPartition) -> None:
        """Move to the log start offset; KafkaError if the position is beyond the end."""
        position = self.positions[partition]
        start = (await starts_of(self._cluster, [partition]))[partition]
        if position >= start:
            end = (await ends_of(self._cluster, [partition]))[partition]
            text = f"{partition} has the offsets {start} to {end}, and {position} was asked for"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        self._moved(partition, position, start)
        self.positions[partition] = start

    def _request(self, partitions: Iterable[TopicPartition]) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            isolation_level=int(self._read_committed),
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=one.partition,
                            fetch_offset=self.positions[one],
                            partition_max_bytes=self._partition_max_bytes,
                        )
                        for one in group
                    ],
                )
                for topic, group in by_topic(partitions)
            ],
        )


def _bytes(data: PartitionData) -> Buffer:
    assert data.records is None or isinstance(data.records, bytes | bytearray | memoryview)
    return data.records if data.records is not None else b""


class _Kept:
    """Which batches of one answer belong to no aborted transaction."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        ordered = sorted(aborted, key=lambda one: one.first_offset)
        self._coming: Iterator[AbortedTransaction] = iter(ordered)
        self._next = next(self._coming, None)
        self._aborted: set[int] = set()

    def keeps(self, batch: RecordBatch) -> bool:
        """Whether consumers see the batch; the batches come in order."""
        while self._next is not None and self._next.first_offset <= batch.last_offset:
            self._aborted.add(self._next.producer_id)
            self._next = next(self._coming, None)
        if batch.is_control:
            if batch.is_transactional and control_type(batch) == ControlType.ABORT:
                self._aborted.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborted)
