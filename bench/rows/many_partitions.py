"""Rows of requests with many partitions: produce, and fetch with and without a session.

A fetch finds new records in one partition, which was written to just before. With a session
(KIP-227) the request names only the partition whose offset has changed, and the response only the
partition with new records. Without a session both name all partitions. The time is from the
request's first byte to the response's last, without the client's encoding and decoding.
"""

import time
from collections.abc import Callable

from bench.load import ask, connected, decoded, frame_of, read_frame, timed
from bench.rows.common import (
    PRODUCE_VERSION,
    TIME_LIMIT_S,
    Measured,
    Row,
    Running,
    batch,
    create_topic,
    delete_topic,
    measured,
    next_offset,
    produce_request,
)
from bench.rows.fetch import FETCH_VERSION
from bench.usage import MB
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

COUNTS = (1, 100, 1000)
LEAST_FETCHES = 50
NO_SESSION = -1


def produce_to_all(topic: str, partitions: int) -> ProduceRequest:
    """A request with a record of 100 bytes for every partition, acks=all."""
    records = batch(1, 100)
    data = [PartitionProduceData(index=n, records=records) for n in range(partitions)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def new_topic(running: Running, partitions: int) -> tuple[str, list[int]]:
    """A topic whose partitions all hold a record, and the next offset of each partition."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}", partitions)
    return topic, next_offsets(bootstrap, topic, partitions)


def next_offsets(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Produce to every partition once all of them exist; returns each partition's next offset."""
    next_offset(bootstrap, produce_request(topic, 1, 100, partitions - 1))
    time_limit = time.monotonic() + TIME_LIMIT_S
    while True:
        answer = ask(bootstrap, produce_to_all(topic, partitions), PRODUCE_VERSION).responses[0]
        if not any(partition.error_code for partition in answer.partition_responses):
            found = {one.index: one.base_offset + 1 for one in answer.partition_responses}
            return [found[n] for n in range(partitions)]
        if time.monotonic() > time_limit:
            raise RuntimeError("not all partitions can be written to")


def produce_load(running: Running, name: str, partitions: int) -> Measured:
    """Produce to all partitions with every request, and check that all records have arrived."""
    topic, first = new_topic(running, partitions)
    frame = frame_of(produce_to_all(topic, partitions), PRODUCE_VERSION)
    run = measured(running, name, frame, 1, 1)
    last = next_offsets(running.broker.bootstrap, topic, partitions)
    kept = {after - before - 1 for after, before in zip(last[:-1], first[:-1], strict=True)}
    if kept != {run.load.requests}:
        raise RuntimeError(f"{run.load.requests} requests acknowledged, {kept} kept")
    delete_topic(running.broker.bootstrap, topic)
    return run


class Fetcher:
    """A client that keeps its offset in every partition, with a session or without."""

    def __init__(self, bootstrap: str, topic: str, offsets: list[int], session: bool) -> None:
        self._connection = connected(bootstrap)
        self._topic = topic
        self._offsets = offsets
        self._session_id, self._epoch = 0, 0 if session else NO_SESSION
        self._changed = list(range(len(offsets)))

    def fetch(self) -> tuple[float, list[int]]:
        """Fetch once; returns the seconds, and the partitions with new records."""
        partitions = [
            FetchPartition(partition=n, fetch_offset=self._offsets[n], partition_max_bytes=MB)
            for n in self._changed
        ]
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=0,
            max_bytes=50 * MB,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic=self._topic, partitions=partitions)] if partitions else [],
        )
        taken, frame = timed(self._connection, frame_of(request, FETCH_VERSION))
        answer = decoded(frame, request, FETCH_VERSION)
        found = [partition for topic in answer.responses for partition in topic.partitions]
        news = [partition for partition in found if partition.records]
        if answer.error_code or any(partition.error_code for partition in found):
            raise RuntimeError(f"the fetch brings errors {answer.error_code}")
        if self._epoch >= 0:
            self._session_id = answer.session_id
            self._changed = [partition.partition_index for partition in news]
            if self._epoch and len(found) != len(news):
                raise RuntimeError(
                    f"{len(found)} partitions in the response, {len(news)} with records"
                )
            self._epoch += 1
        for partition in news:
            self._offsets[partition.partition_index] += 1
        return taken, [partition.partition_index for partition in news]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def fetches_us(running: Running, partitions: int, session: bool) -> list[float]:
    """Times of fetches that each return a record of one partition, ascending."""
    bootstrap = running.broker.bootstrap
    topic, offsets = new_topic(running, partitions)
    fetcher = Fetcher(bootstrap, topic, offsets, session)
    times: list[float] = []
    with connected(bootstrap) as writer:
        fetcher.fetch()
        end = time.monotonic() + running.seconds
        while time.monotonic() < end or len(times) < LEAST_FETCHES:
            partition = len(times) % partitions
            writer.sendall(frame_of(produce_request(topic, 1, 100, partition), PRODUCE_VERSION))
            read_frame(writer)
            taken, news = fetcher.fetch()
            if news != [partition]:
                raise RuntimeError(f"new records in {news} instead of {partition}")
            times.append(taken)
    fetcher.close()
    delete_topic(bootstrap, topic)
    return sorted(taken * 1e6 for taken in times)


def partitions_of(count: int) -> str:
    """The number of partitions, for a row's name."""
    return f"{count:,} partitions" if count > 1 else "1 partition"


def fetch_rows(partitions: int, session: bool) -> list[Row]:
    """Rows for the median and the 99th percentile of such fetches."""
    how = "with a session" if session else "without a session"
    name = f"fetch {how}, {partitions_of(partitions)}, news in one"

    def row(label: str, share: float) -> Row:
        def measure(running: Running) -> float:
            if name not in running.times:
                running.times[name] = fetches_us(running, partitions, session)
            times = running.times[name]
            return times[int((len(times) - 1) * share)]

        return Row(f"{name}: {label}", "µs", False, measure, name)

    return [row("p50", 0.5), row("p99", 0.99)]


def produce_rows(partitions: int) -> list[Row]:
    """Rows for requests per second, and for the 99th percentile of their latency."""
    name = f"produce to {partitions_of(partitions)} per request"

    def row(label: str, unit: str, more: bool, number: Callable[[Measured], float]) -> Row:
        def measure(running: Running) -> float:
            run = running.runs.get(name) or produce_load(running, name, partitions)
            return number(run)

        return Row(label, unit, more, measure, name)

    return [
        row(name, "req/s", True, lambda run: run.load.requests_per_s),
        row(f"{name}: p99", "µs", False, lambda run: run.load.p99_us),
    ]


MANY_PARTITIONS_ROWS: list[Row] = [
    *(row for count in COUNTS[1:] for row in produce_rows(count)),
    *(row for session in (True, False) for count in COUNTS for row in fetch_rows(count, session)),
]
