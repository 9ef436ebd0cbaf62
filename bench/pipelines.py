"""``python -m bench.pipelines`` (``make pipelines``): what a pipeline costs over a job by hand.

The program starts a kwire, writes a million records of JSON, and lets Spark read them into tables
as pipelines and as the few lines of Structured Streaming that one would write instead, in turn, in
one session (``bench.pipelines_job``). The best of the rounds counts. Then Kafka Connect writes them
into a file (``bench.connect``). It prints tables, and exits with 1 if a pipeline's throughput is
below the bar. ``--publish`` also writes the tables into docs/PERFORMANCE.md.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.connect import Written, run_connect
from bench.markdown import table
from bench.publish import PERFORMANCE, between_markers
from compat_tests.java_tools import MissingTool
from kwire.testing.process import BrokerProcess
from spark_tests.environment import LaneMissing, made_environment

BAR = 0.9
TOPIC = "orders"
PARTITIONS = 4
TIMEOUT_S = 120
BEGIN = "<!-- pipelines: made by `make pipelines ARGS=--publish` -->\n"
END = "<!-- end of pipelines -->\n"
PIPELINE, BY_HAND = "pipeline", "by hand"


class Job(NamedTuple):
    """One job's run: seconds, and seconds of processor time of Spark's Java."""

    table: str
    way: str
    round: int
    rows: int
    seconds: float
    cpu_s: float


def main() -> int:
    """Measure; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(prog="bench.pipelines", description="the cost of pipelines")
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--lane", choices=("stock",), default="stock", help="Spark's lane")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the topic")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each job")
    parser.add_argument("--publish", action="store_true", help="write docs/PERFORMANCE.md")
    options = parser.parse_args()
    jobs: list[Job] = []
    connect: list[Written] = []
    before = os.getloadavg()[0]

    def beside(bootstrap: str, directory: Path) -> None:
        for number in range(options.rounds):
            at = directory / f"connect-{number}"
            written = run_connect(bootstrap, TOPIC, at, options.records)
            print(f"Kafka Connect, round {number + 1}: {written.seconds:.1f} s", flush=True)
            connect.append(written)

    try:
        for job in measured(options.lane, options.records, options.rounds, beside):
            print(f"{job.table}, {job.way}, round {job.round}: {job.seconds:.1f} s", flush=True)
            jobs.append(job)
    except (LaneMissing, MissingTool) as reason:
        raise SystemExit(str(reason)) from reason
    load = f"Load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}."
    text = f"{part(jobs, options.records, options.rounds)} {load}\n\n{connect_part(connect)}"
    print(text)
    if options.publish:
        document = PERFORMANCE.read_text(encoding="utf-8")
        PERFORMANCE.write_text(between_markers(document, text, BEGIN, END), encoding="utf-8")
    return 0 if all(ratio >= BAR for ratio in ratios(jobs).values()) else 1


def measured(
    lane: str, records: int, rounds: int, then: Callable[[str, Path], object]
) -> Iterator[Job]:
    """Write the records, and run the jobs; each is checked for its number of rows.

    When Spark has ended, ``then`` gets the broker's address and a directory.
    """
    python, environment = made_environment(lane)
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as name:
        directory = Path(name)
        log = directory / "spark.log"
        with BrokerProcess(directory / "data") as broker, log.open("w") as errors:
            fill(broker.bootstrap, records)
            arguments = [broker.bootstrap, TOPIC, name, str(rounds)]
            run = subprocess.Popen(
                [str(python), "-m", "bench.pipelines_job", *arguments],
                env=environment,
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert run.stdout is not None
            for line in run.stdout:
                job = Job(**json.loads(line))
                if job.rows != records:
                    raise RuntimeError(f"{job} has written other rows than {records:,}")
                if job.round:  # the first round warms up
                    yield job
            if run.wait():
                raise RuntimeError(f"Spark ended with {run.returncode}: {log.read_text()[-2000:]}")
            then(broker.bootstrap, directory)


def fill(bootstrap: str, records: int) -> None:
    """Write records of JSON of about 200 bytes."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    chance = random.Random(1)
    for n in range(records):
        order = {
            "id": n,
            "customer": f"customer-{chance.randrange(100_000)}",
            "amount": round(chance.random() * 500, 2),
            "country": chance.choice(("DE", "FR", "US")),
            "placed": f"2026-03-{1 + n % 28:02}T12:{n % 60:02}:00Z",
            "lines": [{"sku": f"sku-{chance.randrange(1000)}", "count": 1 + n % 5}],
            "note": "leave it at the door",
        }
        value = json.dumps(order, separators=(",", ":")).encode()
        while True:
            try:
                producer.produce(TOPIC, value, b"customer-%d" % (n % 1000))
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("records could not be written")


def ratios(jobs: list[Job]) -> dict[str, float]:
    """How many times a pipeline's throughput is that of the job by hand, by table."""
    return {
        name: best(jobs, name, BY_HAND).seconds / best(jobs, name, PIPELINE).seconds
        for name in dict.fromkeys(job.table for job in jobs)
    }


def best(jobs: list[Job], name: str, way: str) -> Job:
    """The fastest run of a job."""
    return min((job for job in jobs if (job.table, job.way) == (name, way)), key=_seconds)


def least_cpu_s(jobs: list[Job], name: str, way: str) -> float:
    """The least processor time of a job."""
    return min(job.cpu_s for job in jobs if (job.table, job.way) == (name, way))


def _seconds(job: Job) -> float:
    return job.seconds


def part(jobs: list[Job], records: int, rounds: int) -> str:
    """The table for people, with the bar."""
    head = ["job", "by hand, records/s", "pipeline, records/s", "ratio", "bar"]
    rows = [[*head, "CPU by hand, s", "CPU of the pipeline, s"]]
    for name, ratio in ratios(jobs).items():
        rates = [records / best(jobs, name, way).seconds for way in (BY_HAND, PIPELINE)]
        cpu = [least_cpu_s(jobs, name, way) for way in (BY_HAND, PIPELINE)]
        bar = f"≥ {BAR:g} {'met' if ratio >= BAR else 'not met'}"
        cells = [*(f"{rate:,.0f}" for rate in rates), f"{ratio:.2f}", bar]
        rows.append([name, *cells, *(f"{seconds:.1f}" for seconds in cpu)])
    return f"{table(rows, 1)}\n{records:,} records, best of {rounds}."


def connect_part(found: list[Written]) -> str:
    """The table of Kafka Connect's file sink; its best run."""
    one = min(found, key=lambda each: each.seconds / each.lines)
    cpu_s = min(each.cpu_s / each.lines for each in found) * 1_000_000
    head = ["job", "records/s", "CPU of a million records, s"]
    row = ["JSON to lines of text, by Kafka Connect", f"{one.lines / one.seconds:,.0f}"]
    return table([head, [*row, f"{cpu_s:.1f}"]], 1)


if __name__ == "__main__":
    sys.exit(main())
