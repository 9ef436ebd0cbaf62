"""Rows of a producer's latency while another client reads old segments from the disk.

The probe sends a record every 5 ms, each after the acknowledgement of the one before. A record that
has to wait for that acknowledgement is late. Its latency counts at the latest from 5 ms after the
moment when it should have been sent. A broker that stands still for 50 ms therefore slows down
about ten records.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import connected, frame_of, read_frame
from bench.rows.common import (
    PRODUCE_VERSION,
    Row,
    Running,
    create_topic,
    delete_topic,
    next_offset,
    produce_request,
)
from bench.usage import MB
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.record.records import BatchBuilder

NAME = "produce beside a cold reader"
OLD_MB = 512
PROBE_INTERVAL_S = 0.005
SHORTEST_PROBE_S = 10.0


def random_request(topic: str) -> ProduceRequest:
    """A request with a megabyte of random bytes, which no disk can compress."""
    builder = BatchBuilder()
    builder.add(int(time.time() * 1000), None, os.urandom(MB - 1000))
    data = PartitionProduceData(index=0, records=bytes(builder.build()))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


@contextmanager
def cold_reader(running: Running) -> Iterator[None]:
    """Run a client that reads old segments from the disk, during the block."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-old-{time.monotonic_ns()}")
    for _ in range(OLD_MB):
        next_offset(bootstrap, random_request(topic))
    data_dir, name = Path(running.broker.data_dir), f"{topic}-0"
    (directory,) = [*data_dir.glob(name), *data_dir.glob(f"*/{name}")]
    command = [sys.executable, "-m", "bench.cold_reader", bootstrap, topic, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        drain = subprocess.Popen(["cat"], stdin=reader.stdout, stdout=subprocess.DEVNULL)
        try:
            yield
            assert reader.poll() is None, "the reader has ended"
        finally:
            reader.kill()
            drain.wait()
    delete_topic(bootstrap, topic)


def probe_us(running: Running) -> list[float]:
    """The latencies of the probe's records in µs, ascending."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    request = produce_request(topic, 1, 100)
    first = next_offset(bootstrap, request)
    frame = frame_of(request, PRODUCE_VERSION)
    times = []
    with connected(bootstrap) as connection:
        due = time.perf_counter()
        end = due + max(running.seconds, SHORTEST_PROBE_S)
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            started = min(time.perf_counter(), due + PROBE_INTERVAL_S)
            connection.sendall(frame)
            read_frame(connection)
            times.append(time.perf_counter() - started)
            due += PROBE_INTERVAL_S
    kept = next_offset(bootstrap, request) - first - 1
    if kept != len(times):
        raise RuntimeError(f"{len(times)} records acknowledged, {kept} kept")
    delete_topic(bootstrap, topic)
    return sorted(taken * 1e6 for taken in times)


def beside_cold_reader_us(running: Running) -> list[float]:
    """The probe's latencies beside a cold reader, from one run for all rows."""
    if NAME not in running.times:
        with cold_reader(running):
            running.times[NAME] = probe_us(running)
    return running.times[NAME]


def percentile_row(label: str, share: float) -> Row:
    """A row with a percentile of the probe's latencies."""

    def measure(running: Running) -> float:
        times = beside_cold_reader_us(running)
        return times[int((len(times) - 1) * share)]

    return Row(f"{NAME}: {label}", "µs", False, measure, NAME)


COLD_ROWS: list[Row] = [
    percentile_row("p50", 0.5),
    percentile_row("p99", 0.99),
    percentile_row("p99.9", 0.999),
]
