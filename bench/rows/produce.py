"""Rows of producing: requests per second with single records, throughput with batches."""

import time

from bench.load import frame_of
from bench.rows.common import (
    PRODUCE_VERSION,
    Measured,
    Row,
    Running,
    attribute_of_load,
    bytes_rows,
    create_topic,
    delete_topic,
    measured,
    next_offset,
    produce_request,
    ready_for_much_data,
)


def produce_load(
    running: Running, name: str, records: int, size_bytes: int, connections: int, in_flight: int
) -> Measured:
    """Produce batches to a new topic for a while, and check that they all arrived."""
    if name in running.runs:
        return running.runs[name]
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    request = produce_request(topic, records, size_bytes)
    first = next_offset(bootstrap, request)
    frame = frame_of(request, PRODUCE_VERSION)
    if records > 1:
        ready_for_much_data(running)
    run = measured(running, name, frame, connections, in_flight)
    appended = next_offset(bootstrap, request) - first
    if appended != (run.load.requests + 1) * records:
        raise RuntimeError(f"{run.load.requests} batches acknowledged, {appended} records kept")
    delete_topic(bootstrap, topic)
    return run


def request_rows(name: str, connections: int, in_flight: int) -> list[Row]:
    """Rows for single records: requests per second, their latency, and the broker's CPU time."""

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


def batch_rows(name: str, records: int, size_bytes: int) -> list[Row]:
    """Rows for batches, with five requests in flight."""
    return bytes_rows(
        name,
        lambda running: produce_load(running, name, records, size_bytes, 1, 5),
        lambda load: load.requests * records * size_bytes,
    )


PRODUCE_ROWS: list[Row] = [
    *request_rows("1 connection, 1 in flight", 1, 1),
    *request_rows("1 connection, 10 in flight", 1, 10),
    *request_rows("8 connections, 1 in flight", 8, 1),
    *request_rows("64 connections, 1 in flight", 64, 1),
    *request_rows("512 connections, 1 in flight", 512, 1),
    *batch_rows("batches of 100 x 100 B", 100, 100),
    *batch_rows("batches of 1000 x 1000 B", 1000, 1000),
]
