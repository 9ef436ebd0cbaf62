"""The rows of the table: what is measured of a broker, and in which unit.

A row's function starts from a running broker and returns one number. ``better`` says whether more
is better, so that ratios can be read the same way in every row.
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.brokers import MeasuredBroker
from bench.load import Load, ask, frame_of, read_response, run_load
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.record.records import BatchBuilder

PRODUCE_VERSION = 11
FETCH_VERSION = 12
MB = 1_000_000


class Running(NamedTuple):
    """A running broker, the generator, and for how long a row loads it."""

    broker: MeasuredBroker
    program: Path
    seconds: float


class Row(NamedTuple):
    """One row: its name, its unit, whether more is better, and how it is measured."""

    name: str
    unit: str
    more_is_better: bool
    measure: Callable[[Running], float]


def create_topic(bootstrap: str, name: str) -> str:
    """Make sure that a topic with one partition exists."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    ask(bootstrap, CreateTopicsRequest(topics=[topic]), 5)
    return name


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


def produce_load(
    running: Running, records: int, size_bytes: int, connections: int, in_flight: int
) -> Load:
    """Produce batches for a while."""
    bootstrap = running.broker.bootstrap
    request = produce_request(create_topic(bootstrap, "bench"), records, size_bytes)
    answer = ask(bootstrap, request, PRODUCE_VERSION)
    code = answer.responses[0].partition_responses[0].error_code
    assert code == 0, f"the broker refuses the batch with error {code}"
    frame = frame_of(request, PRODUCE_VERSION)
    return run_load(running.program, bootstrap, frame, connections, in_flight, running.seconds)


def requests_row(name: str, connections: int, in_flight: int) -> Row:
    """Single records, as requests a second."""
    return Row(
        name,
        "req/s",
        True,
        lambda running: produce_load(running, 1, 100, connections, in_flight).requests_per_s,
    )


def throughput_row(name: str, records: int, size_bytes: int) -> Row:
    """Batches, five in flight, as megabytes of record values a second."""

    def measure(running: Running) -> float:
        load = produce_load(running, records, size_bytes, 1, 5)
        return load.requests_per_s * records * size_bytes / MB

    return Row(name, "MB/s", True, measure)


def fetch_row(name: str, max_bytes: int) -> Row:
    """Fetches of the same data again and again, as megabytes a second."""

    def measure(running: Running) -> float:
        bootstrap = running.broker.bootstrap
        topic = create_topic(bootstrap, "bench-fetch")
        request = produce_request(topic, 1000, 1000)
        for _ in range(max_bytes // MB + 2):
            ask(bootstrap, request, PRODUCE_VERSION)
        frame = frame_of(fetch_request(topic, 0, max_bytes, 100), FETCH_VERSION)
        load = run_load(running.program, bootstrap, frame, 1, 1, running.seconds)
        return load.response_bytes / load.seconds / MB

    return Row(name, "MB/s", True, measure)


def latency(percentile: str) -> Callable[[Running], float]:
    """A percentile of the latency of single requests, in microseconds."""

    def measure(running: Running) -> float:
        return float(getattr(produce_load(running, 1, 100, 1, 1), percentile))

    return measure


def produce_to_fetch_us(running: Running) -> float:
    """Median time from sending a record to a long-polling fetch having it."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, "bench-latency")
    produce = produce_request(topic, 1, 100)
    first = ask(bootstrap, produce, PRODUCE_VERSION)
    offset = first.responses[0].partition_responses[0].base_offset + 1
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
    return sorted(times)[len(times) // 2] * 1e6


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


def memory_mb(pid: int) -> float:
    """Resident memory of a process, in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024 / MB


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    import os

    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_per_million(in_flight: int) -> Callable[[Running], float]:
    """CPU seconds of the broker for a million single-record requests."""

    def measure(running: Running) -> float:
        before = cpu_seconds(running.broker.pid)
        load = produce_load(running, 1, 100, 1, in_flight)
        return (cpu_seconds(running.broker.pid) - before) / load.requests * 1e6

    return measure


def kb_per_connection(running: Running) -> float:
    """Memory of an idle connection that has made one request, in kilobytes."""
    import contextlib

    host, _, port = running.broker.bootstrap.rpartition(":")
    request = FindCoordinatorRequest(coordinator_keys=["bench"])
    frame = frame_of(request, 4)
    with contextlib.ExitStack() as stack:
        before = memory_mb(running.broker.pid)
        for _ in range(500):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(frame)
            read_response(connection, request, 4)
        return (memory_mb(running.broker.pid) - before) * 1000 / 500


ROWS: list[Row] = [
    Row("memory when idle", "MB", False, lambda running: memory_mb(running.broker.pid)),
    requests_row("1 connection, 1 in flight", 1, 1),
    Row("  the same: p50", "µs", False, latency("p50_us")),
    Row("  the same: p99", "µs", False, latency("p99_us")),
    Row("  the same: p99.9", "µs", False, latency("p999_us")),
    requests_row("1 connection, 10 in flight", 1, 10),
    requests_row("8 connections, 1 in flight", 8, 1),
    requests_row("64 connections, 1 in flight", 64, 1),
    throughput_row("batches of 100 x 100 B", 100, 100),
    throughput_row("batches of 1000 x 1000 B", 1000, 1000),
    fetch_row("fetch, 1 MB at a time", MB),
    fetch_row("fetch, 10 MB at a time", 10 * MB),
    Row("produce to long-polling fetch", "µs", False, produce_to_fetch_us),
    Row("JoinGroup to SyncGroup done", "µs", False, join_to_sync_us),
    Row("CPU per million requests, 1 in flight", "s", False, cpu_per_million(1)),
    Row("CPU per million requests, 10 in flight", "s", False, cpu_per_million(10)),
    Row("memory per idle connection", "KB", False, kb_per_connection),
    Row("memory after the load", "MB", False, lambda running: memory_mb(running.broker.pid)),
]
