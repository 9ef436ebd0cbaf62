"""Retry topics: records that may be decoded later, sent back to their topic when they are due.

A pipeline writes a record whose error may pass (a registry that is away, a schema id that it
doesn't know yet) to ``PIPELINE-TOPIC-retry-1`` with the time at which it is due. At that time
``Retries`` sends the record back to TOPIC, where the pipeline reads it like any other. A record
that fails again goes to the next retry topic, which has a longer delay. After the last retry topic
it becomes a dead letter.

Rules:

- Spark can't hold back single records of a topic: its offsets only go forward. So a small thread
  beside the pipeline does, with kwire's own client.
- All records of a retry topic have the same delay: they are due in the order of their offsets, and
  the first that isn't due ends the search.
- Each record is sent back once, also if the batch that wrote it ran twice (``moving``).
- A record comes back at a new offset, after younger records with its key.
- A pipeline moves its own records only. What it sends back is read by all readers of the topic.
- A retry topic keeps its records: they may wait for as long as no pipeline runs.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import trio

from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError
from kwire.client.group_offsets import commit_offsets, committed_offsets
from kwire.client.leaders import TopicPartition, first_error
from kwire.client.moving import Move, Mover, make_topic, open_mover, partitions_of, read_some
from kwire.client.transactional_producer import NewRecord
from kwire.errors import KafkaError
from kwire.record.records import Headers, Record
from kwire.spark.dead_letters import (
    ATTEMPT,
    DUE_MS,
    PIPELINE,
    PREFIX,
    SOURCE,
    TOPIC_ID,
    name_of,
    retry_topic,
)
from kwire.spark.settings import Source
from kwire.spark.source_client import open_source, opener_of

logger = logging.getLogger(__name__)

_RETRY_CONFIGS = {"retention.ms": "-1", "retention.bytes": "-1"}
_LONGEST_PAUSE_S = 5.0
_PAUSE_AFTER_ERROR_S = 5.0
_STOP_TIMEOUT_S = 30.0


def header_of(headers: Headers, name: str) -> str:
    """The last header of a name as text; empty if there is none."""
    found = [value for key, value in headers if key == name]
    return (found[-1] or b"").decode("utf-8", "replace") if found else ""


def marks_topic(pipeline: str) -> str:
    """The topic with the names of all records that were sent back."""
    return f"{pipeline}-retried"


class RetryWork:
    """Sends back the records that are due; the thread calls it again and again."""

    def __init__(
        self,
        cluster: Cluster,
        mover: Mover,
        partitions: list[TopicPartition],
        targets: dict[str, str],
        pipeline: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._cluster = cluster
        self._mover = mover
        self._pipeline = pipeline
        self._targets = targets
        self._group = f"{pipeline}-retries"
        self._now_ms = now_ms
        self._partitions = partitions
        self._held: dict[TopicPartition, deque[Record]] = {one: deque() for one in partitions}
        self._positions: dict[TopicPartition, int] = {}

    async def move_due(self) -> int:
        """Send the records whose time has come back to their topics.

        Returns how many. Raises KafkaError or ClientError.
        """
        if not self._positions:
            known = await committed_offsets(self._cluster, self._group, self._partitions)
            self._positions = {one: known.get(one, 0) for one in self._partitions}
        empty = {one: self._positions[one] for one in self._partitions if not self._held[one]}
        for one, fetched in (await read_some(self._cluster, empty, self._skip_deleted)).items():
            self._held[one].extend(fetched.records)
            self._positions[one] = fetched.next_offset
        taken = {one: self._take_due(one) for one in self._partitions}
        moves = [move for mine in taken.values() for move in mine]
        count = await self._mover.send(moves)
        done = {
            one: self._held[one][0].offset if self._held[one] else self._positions[one]
            for one in self._partitions
            if taken[one]
        }
        if done:
            await commit_offsets(self._cluster, self._group, done)
        return count

    def _skip_deleted(self, partition: TopicPartition, start: int) -> None:
        """Tell that a retry topic has deleted records that were never sent back."""
        logger.warning(
            "%s-%d has deleted offsets %d to %d, which may not have been sent back: set its "
            "retention.ms to -1",
            *partition,
            self._positions[partition],
            start - 1,
        )
        self._positions[partition] = start

    def _take_due(self, partition: TopicPartition) -> list[Move]:
        held, now_ms = self._held[partition], self._now_ms()
        moves = []
        while held and _due_ms(held[0]) <= now_ms:
            record = held.popleft()
            if header_of(record.headers, PIPELINE) != self._pipeline:
                continue
            moves.append(move_back(record, self._targets[partition.topic]))
        return moves


def _due_ms(record: Record) -> int:
    text = header_of(record.headers, DUE_MS)
    return int(text) if text.isdecimal() else 0


def move_back(record: Record, topic: str) -> Move:
    """A record as it was in its topic, with the number of its attempt."""
    attempt, source = header_of(record.headers, ATTEMPT), header_of(record.headers, SOURCE)
    name = name_of(source, header_of(record.headers, TOPIC_ID))
    headers = [one for one in record.headers if not one[0].startswith(PREFIX)]
    headers += [(SOURCE, source.encode()), (ATTEMPT, attempt.encode())]
    back = NewRecord(record.timestamp, record.key, record.value, tuple(headers))
    return Move(f"{name}#{attempt}", topic, back)


class Retries:
    """The thread beside a pipeline; use it as a context manager."""

    def __init__(self, pipeline: str, source: Source, delays_s: tuple[float, ...]) -> None:
        opener_of(source)  # what is wrong with it is said at once, not by the thread
        self._source = source
        self._pipeline = pipeline
        self._topics = source.topics
        self._delays_s = delays_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kwire retries", daemon=True)
        self._ready = threading.Event()
        self._pause_s = min(_LONGEST_PAUSE_S, max(delays_s[0] / 4, 0.05))

    def __enter__(self) -> "Retries":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_STOP_TIMEOUT_S)

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until the retry topics are there; whether they are."""
        return self._ready.wait(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                trio.run(self._serve)
            except BaseException as raised:
                error = first_error(raised)
                if not isinstance(error, KafkaError | ClientError):
                    raise
                logger.warning("retry topics of %s wait: %s", self._pipeline, error)
                self._stop.wait(_PAUSE_AFTER_ERROR_S)

    async def _serve(self) -> None:
        async with open_source(self._source) as cluster:
            work = await open_retries(cluster, self._pipeline, self._topics, len(self._delays_s))
            self._ready.set()
            while not self._stop.is_set():
                if not await work.move_due():
                    await trio.sleep(self._pause_s)


async def open_retries(
    cluster: Cluster,
    pipeline: str,
    topics: tuple[str, ...],
    attempts: int,
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
) -> RetryWork:
    """Make the retry topics, with as many partitions as their topic has; KafkaError."""
    targets = {}
    for topic in topics:
        count = len((await cluster.topics([topic]))[topic].partitions)
        for attempt in range(1, attempts + 1):
            name = retry_topic(pipeline, topic, attempt)
            await make_topic(cluster, name, count, _RETRY_CONFIGS)
            targets[name] = topic
    mover = await open_mover(cluster, marks_topic(pipeline))
    partitions = await partitions_of(cluster, targets)
    return RetryWork(cluster, mover, partitions, targets, pipeline, now_ms)
