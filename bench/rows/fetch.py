"""Rows of fetching: throughput of existing data, and latency of new records."""

import socket
import time

from bench.load import ask, connected, decoded, frame_of, read_frame, read_response
from bench.rows.common import (
    PRODUCE_VERSION,
    Measured,
    Row,
    Running,
    bytes_rows,
    create_topic,
    delete_topic,
    measured,
    next_offset,
    produce_request,
)
from bench.usage import MB
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_VERSION = 12
LONG_POLL = "produce to long-polling fetch"
LONG_POLLS = 500
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def fetch_request(
    topic: str,
    offset: int,
    max_bytes: int,
    max_wait_ms: int,
    *,
    partition: int = 0,
    isolation_level: int = READ_UNCOMMITTED,
) -> FetchRequest:
    """A fetch of one partition without a session."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def same_fetch_load(running: Running, name: str, fetch: FetchRequest, least_bytes: int) -> Measured:
    """Send one fetch again and again; every response has to bring the same bytes."""
    answer = ask(running.broker.bootstrap, fetch, FETCH_VERSION).responses[0].partitions[0]
    size_bytes = len(answer.records)
    if answer.error_code or size_bytes < least_bytes:
        raise RuntimeError(f"the fetch brings error {answer.error_code}, {size_bytes} bytes")
    run = measured(running, name, frame_of(fetch, FETCH_VERSION), 1, 1)
    if run.load.response_bytes < run.load.requests * size_bytes:
        raise RuntimeError("not every fetch has brought what the first one did")
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
    run = same_fetch_load(running, name, fetch, max_bytes // 2)
    delete_topic(bootstrap, topic)
    return run


def fetch_rows(name: str, max_bytes: int) -> list[Row]:
    """Rows for fetches of ``max_bytes``, one after the other."""
    return bytes_rows(
        name,
        lambda running: fetch_load(running, name, max_bytes),
        lambda load: load.response_bytes,
    )


def produce_to_fetch_us(running: Running) -> list[float]:
    """Times from sending a record until a long-polling fetch returns it, ascending."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    times = long_polls_us(bootstrap, topic)
    delete_topic(bootstrap, topic)
    return times


def long_polls_us(bootstrap: str, topic: str) -> list[float]:
    """The same times for a topic that exists; ``bootstrap`` leads its first partition."""
    request = produce_request(topic, 1, 100)
    offset = next_offset(bootstrap, request) + 1
    produce = frame_of(request, PRODUCE_VERSION)
    times = []
    with connected(bootstrap) as writer, connected(bootstrap) as reader:
        for side in (writer, reader):
            side.settimeout(None)
        for n in range(LONG_POLLS):
            fetch = fetch_request(topic, offset + n, MB, 5000)
            reader.sendall(frame_of(fetch, FETCH_VERSION))
            # The broker must have the fetch before the record comes, else it isn't a long poll.
            reader.settimeout(0.002)
            try:
                reader.recv(1, socket.MSG_PEEK)
            except TimeoutError:
                reader.settimeout(None)
            started = time.perf_counter()
            writer.sendall(produce)
            answer = read_frame(reader)
            times.append(time.perf_counter() - started)
            [partition] = decoded(answer, fetch, FETCH_VERSION).responses[0].partitions
            assert partition.records, "the fetch brings nothing"
            read_response(writer, request, PRODUCE_VERSION)
    return sorted(taken * 1e6 for taken in times)


def produce_to_fetch_row(label: str, share: float) -> Row:
    """A row with a percentile of the time from producer to consumer."""

    def measure(running: Running) -> float:
        if LONG_POLL not in running.times:
            running.times[LONG_POLL] = produce_to_fetch_us(running)
        times = running.times[LONG_POLL]
        return times[int((len(times) - 1) * share)]

    return Row(f"{LONG_POLL}: {label}", "µs", False, measure, LONG_POLL)


FETCH_ROWS: list[Row] = [
    *fetch_rows("fetch, 1 MB at a time", MB),
    *fetch_rows("fetch, 10 MB at a time", 10 * MB),
    produce_to_fetch_row("p50", 0.5),
    produce_to_fetch_row("p99", 0.99),
]
