"""Records sent once: out of retry topics and dead letters, through interruptions.

Rules:

- Each record has a name, made of its origin. The record that is sent and its name, as a record of
  the marks topic, are written in one transaction: after an interruption both are there or neither.
- Before any record is sent, the marks topic is read to its end: records with a mark aren't sent
  again.
- Each marks topic has one transactional id, so a later run fences a run that isn't finished.
- The marks topic is compacted and has one partition: each mark stays, but its doubles are removed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import trio

from kwire.client.cluster import Cluster
from kwire.client.fetcher import Fetched, Fetcher
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import ends_of, starts_of
from kwire.client.partitioner import partition_of_key
from kwire.client.topics import create_topics
from kwire.client.transactional_producer import NewRecord, TransactionalProducer, open_producer
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record

_MARK_CONFIGS = {"cleanup.policy": "compact"}
_PER_TRANSACTION = 500
_TRANSACTION_BYTES = 8 << 20


class Move(NamedTuple):
    """A record to send once: its name and its target."""

    name: str
    topic: str
    record: NewRecord


class Mover:
    """Sends records once; made by ``open_mover``."""

    def __init__(
        self,
        cluster: Cluster,
        marks: TopicPartition,
        producer: TransactionalProducer,
        sent: set[str],
    ) -> None:
        self._cluster = cluster
        self._marks = marks
        self._producer = producer
        self._partitions: dict[str, list[int]] = {}
        self.sent = sent
        """The names of all records that were sent, also by earlier runs."""

    async def send(
        self, moves: Iterable[Move], handled: Callable[[int], object] = lambda count: None
    ) -> int:
        """Send records without a mark; returns how many.

        ``handled`` is called now and then with the number of records that are done.

        KafkaError: none of the last part was sent.
        """
        count, part, size = 0, [], 0
        for number, move in enumerate(moves, 1):
            part.append(move)
            size += len(move.record.value or b"") + len(move.record.key or b"")
            if len(part) >= _PER_TRANSACTION or size >= _TRANSACTION_BYTES:
                count += await self._send_part(part)
                part, size = [], 0
                handled(number)
        return count + await self._send_part(part)

    async def mark(self, names: Iterable[str], now_ms: int) -> None:
        """Mark records that needn't be sent any more; KafkaError.

        ``now_ms`` is the date of the marks, in ms since the epoch.
        """
        new = sorted(set(names) - self.sent)
        for first in range(0, len(new), _PER_TRANSACTION):
            part = new[first : first + _PER_TRANSACTION]
            marks = [NewRecord(now_ms, name.encode(), b"replaced") for name in part]
            await self._producer.write({self._marks: marks})
            self.sent.update(part)

    async def _send_part(self, moves: Sequence[Move]) -> int:
        new = {move.name: move for move in moves if move.name not in self.sent}
        if not new:
            return 0
        records: dict[TopicPartition, list[NewRecord]] = {}
        for place, move in enumerate(new.values()):
            partitions = await self._partitions_of(move.topic)
            key = move.record.key
            index = place % len(partitions)
            if key is not None:
                index = partition_of_key(key, len(partitions))
            target = TopicPartition(move.topic, partitions[index])
            records.setdefault(target, []).append(move.record)
        records[self._marks] = [
            NewRecord(move.record.timestamp, name.encode(), b"sent") for name, move in new.items()
        ]
        await self._producer.write(records)
        self.sent |= new.keys()
        return len(new)

    async def _partitions_of(self, topic: str) -> list[int]:
        if topic not in self._partitions:
            found = (await self._cluster.topics([topic]))[topic]
            self._partitions[topic] = sorted(row.partition_index for row in found.partitions)
        return self._partitions[topic]


async def open_mover(cluster: Cluster, marks_topic: str) -> Mover:
    """Make the marks topic if it isn't there, fence others, and read the marks; KafkaError."""
    await make_topic(cluster, marks_topic, 1, _MARK_CONFIGS)
    producer = await open_producer(cluster, marks_topic)
    sent = await marked(cluster, marks_topic)
    return Mover(cluster, TopicPartition(marks_topic, 0), producer, sent)


async def make_topic(
    cluster: Cluster, name: str, partitions: int, configs: dict[str, str] | None = None
) -> None:
    """Create a topic if it isn't there; KafkaError."""
    outcome = (await create_topics(cluster, [name], partitions=partitions, configs=configs))[name]
    if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome
    await cluster.topics([name], creates=True)


async def read_some(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    on_deleted: Callable[[TopicPartition, int], None] = lambda partition, start: None,
) -> dict[TopicPartition, Fetched]:
    """One answer's worth of committed records of each partition that has some; KafkaError.

    ``on_deleted`` is called with the log start offset of each partition that begins after its
    position.
    """
    ends = await ends_of(cluster, positions, read_committed=True)
    starts = await starts_of(cluster, positions)
    for one, position in positions.items():
        if position < starts[one]:
            on_deleted(one, starts[one])
    left = {
        one: max(position, starts[one])
        for one, position in positions.items()
        if max(position, starts[one]) < ends[one]
    }
    found: dict[TopicPartition, Fetched] = {}
    if not left:
        return found
    fetcher = Fetcher(cluster, dict(left), read_committed=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetcher.run)
        while len(found) < len(left):
            fetched = await fetcher.next()
            if fetched.next_offset > left[fetched.partition]:
                found.setdefault(fetched.partition, fetched)
                fetcher.pause(fetched.partition)
        nursery.cancel_scope.cancel()
    return found


async def partitions_of(cluster: Cluster, topics: Iterable[str]) -> list[TopicPartition]:
    """The partitions of topics that exist; KafkaError for one that doesn't."""
    found = await cluster.topics(list(topics))
    return [
        TopicPartition(name, row.partition_index)
        for name, topic in found.items()
        for row in topic.partitions
    ]


async def read_all(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    take: Callable[[TopicPartition, Record], None],
) -> None:
    """Hand on all committed records from the start to the end as it is now; KafkaError."""
    ends = await ends_of(cluster, partitions, read_committed=True)
    starts = await starts_of(cluster, partitions)
    positions = {one: starts[one] for one in partitions if starts[one] < ends[one]}
    left = set(positions)
    if not left:
        return
    fetcher = Fetcher(cluster, positions, read_committed=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetcher.run)
        while left:
            fetched = await fetcher.next()
            for record in fetched.records:
                if record.offset < ends[fetched.partition]:
                    take(fetched.partition, record)
            if fetched.next_offset >= ends[fetched.partition] and fetched.partition in left:
                left.discard(fetched.partition)
                fetcher.pause(fetched.partition)
        nursery.cancel_scope.cancel()


async def marked(cluster: Cluster, marks_topic: str) -> set[str]:
    """The names that have a mark; none if there is no such topic, which this doesn't create."""
    names: set[str] = set()

    def take(_: TopicPartition, record: Record) -> None:
        if record.key is not None:
            names.add(record.key.decode("utf-8", "replace"))

    await read_if_there(cluster, marks_topic, take)
    return names


async def read_if_there(
    cluster: Cluster, topic: str, take: Callable[[TopicPartition, Record], None]
) -> None:
    """Hand on all committed records of a topic, none if there is no such topic; KafkaError."""
    try:
        partitions = await partitions_of(cluster, [topic])
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        raise
    await read_all(cluster, partitions, take)
