"""The rows of the table: what is measured of a broker, and in which unit.

A row's function starts from a running broker and returns one number; ``more_is_better`` lets ratios
be read the same way in every row. Several rows may look at one load, which then runs once a round.
"""

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.brokers import MeasuredBroker
from bench.load import Generator, Load, ask, frame_of, read_response, run_load
from bench.usage import MB, cpu_seconds, proportional_mb, resident_mb
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.record.records import BatchBuilder

PRODUCE_VERSION = 11
FETCH_VERSION = 12
GENERATOR_IS_LIMIT = 0.9
"""Above this share of one core the generator, not the broker, may have been the limit."""


class Measured(NamedTuple):
    """One run of the generator, and the CPU seconds the broker used meanwhile."""

    load: Load
    broker_cpu_s: float


@dataclass(slots=True)
class Running:
    """A running broker, and what its rows share.

    ``seconds`` is how long a row loads it. Rows that look at the same load share one run of it
    (``runs``); ``limited`` collects the loads in which the generator was the limit.
    """

    broker: MeasuredBroker
    generator: Generator
    seconds: float
    runs: dict[str, Measured] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)


class Row(NamedTuple):
    """One row: its name, its unit, whether more is better, and how it is measured.

    ``load`` names the load it looks at, if it does.
    """

    name: str
    unit: str
    more_is_better: bool
    measure: Callable[[Running], float]
    load: str = ""


def create_topic(bootstrap: str, name: str) -> str:
    """Make sure that a topic with one partition exists, whose files go soon after it is deleted."""
    soon = CreatableTopicConfig(name="file.delete.delay.ms", value="1000")
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[soon])
    ask(bootstrap, CreateTopicsRequest(topics=[topic]), 5)
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic and its data."""
    ask(bootstrap, DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)


def next_offset(bootstrap: str, request: ProduceRequest) -> int:
    """Produce once; the offset it got. The topic may have been created a moment ago."""
    time_limit = time.monotonic() + 30
    while True:
        answer = ask(bootstrap, request, PRODUCE_VERSION).responses[0].partition_responses[0]
        if answer.error_code == 0:
            return int(answer.base_offset)
        if time.monotonic() > time_limit:
            raise RuntimeError(f"the broker refuses the batch with error {answer.error_code}")


def batch(records: int, size_bytes: int) -> bytes:
    """A batch of records with values of ``size_bytes``."""
    builder = BatchBuilder()
    now_ms = int(time.time() * 1000)
    for _ in range(records):
        builder.add(now_ms, None, bytes(size_bytes))
    return bytes(builder.build())


def produce_request(topic: str, records: int, size_bytes: int) -> ProduceRequest:
    """A produce request with acks=all."""
    data = PartitionProduceData(index=0, records=batch(records, size_bytes))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def fetch_request(topic: str, offset: int, max_bytes: int, max_wait_ms: int) -> FetchRequest:
    """A fetch of one partition without a session."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics)


def measured(
    running: Running, name: str, frame: bytes, connections: int, in_flight: int
) -> Measured:
    """Run the generator, and note what the broker used and whether the generator was the limit."""
    before = cpu_seconds(running.broker.pid)
    bootstrap = running.broker.bootstrap
    load = run_load(running.generator, bootstrap, frame, connections, in_flight, running.seconds)
    run = Measured(load, cpu_seconds(running.broker.pid) - before)
    if load.generator_share > GENERATOR_IS_LIMIT:
        running.limited.add(name)
    running.runs[name] = run
    return run


def produce_load(
    running: Running, name: str, records: int, size_bytes: int, connections: int, in_flight: int
) -> Measured:
    """Produce batches for a while, to a topic of its own, and check that they all arrived."""
    if name in running.runs:
        return running.runs[name]
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    request = produce_request(topic, records, size_bytes)
    first = next_offset(bootstrap, request)
    frame = frame_of(request, PRODUCE_VERSION)
    run = measured(running, name, frame, connections, in_flight)
    appended = next_offset(bootstrap, request) - first
    if appended != (run.load.requests + 1) * records:
        raise RuntimeError(f"{run.load.requests} batches acknowledged, {appended} records kept")
    delete_topic(bootstrap, topic)
    return run


def fetch_load(running: Running, name: str, max_bytes: int) -> Measured:
    """Fetch the same data again and again."""
    if name in running.runs:
        return running.runs[name]
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    request = produce_request(topic, 1000, 1000)
    for _ in range(max_bytes // MB + 2):
        next_offset(bootstrap, request)
    fetch = fetch_request(topic, 0, max_bytes, 100)
    answer = ask(bootstrap, fetch, FETCH_VERSION).responses[0].partitions[0]
    if answer.error_code or len(answer.records) < max_bytes // 2:
        raise RuntimeError(f"the fetch brings error {answer.error_code} or too little")
    run = measured(running, name, frame_of(fetch, FETCH_VERSION), 1, 1)
    delete_topic(bootstrap, topic)
    return run


def request_rows(name: str, connections: int, in_flight: int) -> list[Row]:
    """Single records: requests a second, their latency, and the broker's CPU seconds."""

    def run(running: Running) -> Measured:
        return produce_load(running, name, 1, 100, connections, in_flight)

    return [
        Row(name, "req/s", True, lambda running: run(running).load.requests_per_s, name),
        *(
            Row(f"{name}: {label}", "µs", False, attribute_of_load(run, attribute), name)
            for label, attribute in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"))
        ),
        Row(
            f"{name}: CPU per million",
            "s",
            False,
            lambda running: run(running).broker_cpu_s / run(running).load.requests * 1e6,
            name,
        ),
    ]


def attribute_of_load(
    run: Callable[[Running], Measured], attribute: str
) -> Callable[[Running], float]:
    """A row's function that reads one number of a load."""
    return lambda running: float(getattr(run(running).load, attribute))


def bytes_rows(
    name: str, run: Callable[[Running], Measured], size: Callable[[Load], int]
) -> list[Row]:
    """Megabytes a second, and the broker's CPU seconds for a gigabyte."""

    def rate(running: Running) -> float:
        load = run(running).load
        return size(load) / load.seconds / MB

    def cpu(running: Running) -> float:
        return run(running).broker_cpu_s / size(run(running).load) * 1000 * MB

    return [
        Row(name, "MB/s", True, rate, name),
        Row(f"{name}: CPU per GB", "s", False, cpu, name),
    ]


def batch_rows(name: str, records: int, size_bytes: int) -> list[Row]:
    """Batches, five in flight."""
    return bytes_rows(
        name,
        lambda running: produce_load(running, name, records, size_bytes, 1, 5),
        lambda load: load.requests * records * size_bytes,
    )


def fetch_rows(name: str, max_bytes: int) -> list[Row]:
    """Fetches of so many bytes, one after the other."""
    return bytes_rows(
        name,
        lambda running: fetch_load(running, name, max_bytes),
        lambda load: load.response_bytes,
    )


def produce_to_fetch_us(running: Running) -> list[float]:
    """Times from sending a record to a long-polling fetch having it, ascending."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    produce = produce_request(topic, 1, 100)
    offset = next_offset(bootstrap, produce) + 1
    host, _, port = bootstrap.rpartition(":")
    times = []
    with (
        socket.create_connection((host, int(port))) as writer,
        socket.create_connection((host, int(port))) as reader,
    ):
        for side in (writer, reader):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for n in range(500):
            fetch = fetch_request(topic, offset + n, MB, 5000)
            reader.sendall(frame_of(fetch, FETCH_VERSION))
            # The broker has to have the fetch before the record comes, or it isn't a long poll.
            reader.settimeout(0.002)
            try:
                reader.recv(1, socket.MSG_PEEK)
            except TimeoutError:
                reader.settimeout(None)
            started = time.perf_counter()
            writer.sendall(frame_of(produce, PRODUCE_VERSION))
            read_response(reader, fetch, FETCH_VERSION)
            times.append(time.perf_counter() - started)
            read_response(writer, produce, PRODUCE_VERSION)
    delete_topic(bootstrap, topic)
    return sorted(taken * 1e6 for taken in times)


def produce_to_fetch_row(label: str, share: float) -> Row:
    """A percentile of the way from producer to consumer."""

    def measure(running: Running) -> float:
        times = produce_to_fetch_us(running)
        return times[int((len(times) - 1) * share)]

    return Row(f"produce to long-polling fetch: {label}", "µs", False, measure)


def join_to_sync_us(running: Running) -> float:
    """Median time of a lone member from JoinGroup to its assignment."""
    bootstrap = running.broker.bootstrap
    ask(bootstrap, FindCoordinatorRequest(coordinator_keys=["bench"]), 4)
    time_limit = time.monotonic() + 30
    times: list[float] = []
    while len(times) < 30:
        assert time.monotonic() < time_limit, "the coordinator does not answer"
        group = f"bench-{time.monotonic_ns()}"
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        started = time.perf_counter()
        joined = ask(bootstrap, join, 3)
        if joined.error_code:
            continue
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"x")
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        )
        assert ask(bootstrap, sync, 2).error_code == 0
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2] * 1e6


def kb_per_connection(running: Running) -> float:
    """Memory of an idle connection that has made one request, in kilobytes."""
    host, _, port = running.broker.bootstrap.rpartition(":")
    request = FindCoordinatorRequest(coordinator_keys=["bench"])
    frame = frame_of(request, 4)
    with contextlib.ExitStack() as stack:
        before = resident_mb(running.broker.pid)
        for _ in range(500):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(frame)
            read_response(connection, request, 4)
        return (resident_mb(running.broker.pid) - before) * 1000 / 500


def memory_rows(when: str) -> list[Row]:
    """Resident memory, and the same with shared pages counted by their share."""
    return [
        Row(f"memory {when}", "MB", False, lambda running: resident_mb(running.broker.pid)),
        Row(
            f"memory {when}: PSS", "MB", False, lambda running: proportional_mb(running.broker.pid)
        ),
    ]


IDLE_ROWS = memory_rows("when idle")
"""Measured once a broker has started, before any load."""

ROWS: list[Row] = [
    *request_rows("1 connection, 1 in flight", 1, 1),
    *request_rows("1 connection, 10 in flight", 1, 10),
    *request_rows("8 connections, 1 in flight", 8, 1),
    *request_rows("64 connections, 1 in flight", 64, 1),
    *batch_rows("batches of 100 x 100 B", 100, 100),
    *batch_rows("batches of 1000 x 1000 B", 1000, 1000),
    *fetch_rows("fetch, 1 MB at a time", MB),
    *fetch_rows("fetch, 10 MB at a time", 10 * MB),
    produce_to_fetch_row("p50", 0.5),
    produce_to_fetch_row("p99", 0.99),
    Row("JoinGroup to SyncGroup done", "µs", False, join_to_sync_us),
    Row("memory per idle connection", "KB", False, kb_per_connection),
    *memory_rows("after the load"),
]
"""Measured in every round."""
