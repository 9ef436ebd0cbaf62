"""Rows of a stock client: librdkafka's producer and consumer, driven from C (``librdkafka.c``).

The library is the one in the package confluent-kafka. Its settings are the defaults, except
``linger.ms=5``, which users often set for throughput. For small records the queue holds a million
records, so that it isn't the limit. ``acks`` is ``all``, idempotence depends on the row. Values are
zeros and not compressed.
"""

import json
import shutil
import subprocess
import time
from functools import cache
from importlib.metadata import files
from pathlib import Path

from bench.load import connected, frame_of, read_response
from bench.rows.common import (
    GENERATOR_IS_LIMIT,
    PRODUCE_VERSION,
    NotHere,
    Row,
    Running,
    create_topic,
    delete_topic,
    next_offset,
    produce_request,
    ready_for_much_data,
)
from bench.usage import MB

SOURCE = Path(__file__).parent.parent / "librdkafka.c"
PRODUCER = {"acks": "all", "linger.ms": "5"}
RECORDS_A_SECOND = 1_500_000
"""The number of records to consume for each second that a row may take."""
CONSUMER = "librdkafka consumer, 100 B"


@cache
def library() -> Path:
    """The shared library of librdkafka."""
    for file in files("confluent-kafka") or ():
        if file.name.startswith("librdkafka") and ".so" in file.name:
            return Path(str(file.locate()))
    raise NotHere("the package confluent-kafka has no shared library of librdkafka here")


def program(running: Running) -> Path:
    """The path of the client, which is compiled once."""
    target = running.generator.directory / "librdkafka"
    if not target.exists():
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise NotHere("a C compiler is needed")
        command = [compiler, "-O2", "-o", str(target), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
    return target


def run_client(
    running: Running, name: str, topic: str, *arguments: str, records: int = 0
) -> dict[str, float]:
    """Run the client to its end; returns the numbers that it prints."""
    command = [str(program(running)), str(library()), running.broker.bootstrap, topic]
    what, size_bytes, *settings = arguments
    command += [what, size_bytes, str(running.seconds), str(records), *settings]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if run.returncode:
        raise RuntimeError(f"librdkafka ended with {run.returncode}: {run.stderr.strip()[-300:]}")
    numbers: dict[str, float] = json.loads(run.stdout)
    if numbers["busiest_thread_s"] > GENERATOR_IS_LIMIT * numbers["seconds"]:
        running.limited.add(name)
    return numbers


def producer_row(name: str, size_bytes: int, unit: str, of_records: float, **settings: str) -> Row:
    """A row for acknowledged records per second; ``of_records`` converts records to ``unit``."""

    def measure(running: Running) -> float:
        bootstrap = running.broker.bootstrap
        topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
        probe = produce_request(topic, 1, 1)
        first = next_offset(bootstrap, probe)
        given = {**PRODUCER, **{key.replace("_", "."): value for key, value in settings.items()}}
        ready_for_much_data(running)
        pairs = [f"{key}={value}" for key, value in given.items()]
        numbers = run_client(running, name, topic, "produce", str(size_bytes), *pairs)
        appended = next_offset(bootstrap, probe) - first - 1
        if appended != numbers["records"]:
            raise RuntimeError(f"{numbers['records']} records acknowledged, {appended} kept")
        delete_topic(bootstrap, topic)
        return numbers["records"] * of_records / numbers["seconds"]

    return Row(name, unit, True, measure, name)


def fill(running: Running, topic: str, wanted: int) -> int:
    """Produce at least ``wanted`` records of 100 bytes, in batches of 1,000; returns how many."""
    bootstrap = running.broker.bootstrap
    request = produce_request(topic, 1000, 100)
    next_offset(bootstrap, request)
    count = 1000
    with connected(bootstrap) as connection:
        frame = frame_of(request, PRODUCE_VERSION)
        while count < wanted:
            connection.sendall(frame)
            answer = read_response(connection, request, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0, answer
            count += 1000
    return count


def consumer_rate(running: Running) -> float:
    """Records of 100 bytes consumed per second, from the start to the end of a topic."""
    topic = create_topic(running.broker.bootstrap, f"bench-{time.monotonic_ns()}")
    records = fill(running, topic, int(RECORDS_A_SECOND * running.seconds))
    numbers = run_client(running, CONSUMER, topic, "consume", "100", records=records)
    delete_topic(running.broker.bootstrap, topic)
    return numbers["records"] / numbers["seconds"]


LIBRDKAFKA_ROWS: list[Row] = [
    producer_row(
        "librdkafka producer, 100 B",
        100,
        "records/s",
        1,
        queue_buffering_max_messages="1000000",
    ),
    producer_row("librdkafka producer, 1 KB", 1000, "MB/s", 1000 / MB),
    producer_row(
        "librdkafka producer, 1 KB, idempotent", 1000, "MB/s", 1000 / MB, enable_idempotence="true"
    ),
    Row(CONSUMER, "records/s", True, consumer_rate, CONSUMER),
]
