"""``python -m bench.pipelines`` (``make pipelines``): what a pipeline costs over a job by hand.

The program starts a kwire and a schema registry, writes the same orders as JSON, Avro and Protobuf
(``bench.pipelines_topics``), and lets Spark read them into tables: as pipelines, and as the lines
that one would write by hand instead (``bench.pipelines_job``); on each of Spark's lanes. It also
reads the broker's segments beside Spark's connector. At last Kafka Connect writes the JSON into a
file (``bench.connect``). The best of the rounds counts. There are as many rounds as asked for, or
as fit into the time. It prints a table, and exits with 1 if a bar is missed. ``--publish`` also
writes the table into docs/PERFORMANCE.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.connect import Written, run_connect
from bench.markdown import table
from bench.publish import publish_part
from bench.segments import wait_for_high_watermarks
from compat_tests.java_tools import MissingTool
from kwire.testing.process import BrokerProcess
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.environment import LaneMissing, fetch_jars, made_environment

LANES = {"stock": "PySpark 4.0", "new": "PySpark 4.3"}
BEGIN = "<!-- pipelines: made by `make pipelines ARGS=--publish` -->\n"
END = "<!-- end of pipelines -->\n"
KWIRE, BY_HAND = "kwire", "by hand"
PARQUET, DELTA = "parquet", "delta"
CONNECT = "connect"
CONNECT_S = 60
"""About how long Kafka Connect takes, with its start: Spark's jobs leave it that time."""


class Job(NamedTuple):
    """What is measured both ways; ``bar`` is how many times as fast as by hand kwire has to be."""

    title: str
    format: str
    table: str
    bar: float | None
    lanes: tuple[str, ...] = tuple(LANES)


JOBS = {
    "json": Job("JSON to Parquet", "json", PARQUET, 0.9),
    "delta": Job("JSON to Delta", "json", DELTA, 0.9, ("stock",)),
    "avro": Job("Avro to Parquet, beside fastavro", "avro", PARQUET, 0.9),
    "from_avro": Job("Avro to Parquet, beside `from_avro`", "avro", PARQUET, None, ("stock",)),
    "protobuf": Job("Protobuf to Parquet, beside protobuf", "protobuf", PARQUET, 0.9),
    "scan": Job("segments read, beside the connector", "json", PARQUET, 1.3),
    "backfill": Job("segments of JSON to Parquet, beside the connector", "json", PARQUET, 1.3),
}


class Measured(NamedTuple):
    """A run: seconds, and seconds of processor time of the driver, Java and Python workers."""

    lane: str
    job: str
    way: str
    round: int
    rows: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    error: str = ""

    @property
    def told(self) -> str:
        """What it was, in a line."""
        warm = f"round {self.round}" if self.round else "warm-up"
        return f"{LANES[self.lane]}, {warm}, {JOBS[self.job].title}, {self.way}"


def main() -> int:
    """Measure; 1 if a bar is missed."""
    options = _arguments().parse_args()
    names = options.jobs.split(",")
    if wrong := [one for one in names if one not in (*JOBS, CONNECT)]:
        raise SystemExit(f"--jobs {wrong[0]}: there are {', '.join((*JOBS, CONNECT))}")
    lanes = list(LANES) if options.lane == "both" else [options.lane]
    load = os.getloadavg()[0]
    try:
        found, connect = measure(lanes, names, options)
    except (LaneMissing, MissingTool) as reason:
        raise SystemExit(str(reason)) from reason
    failed = [f"{one.told} failed: {one.error}\n" for one in found if one.error]
    text = (
        f"{table(rows_of(found, options.records), 2)}\n{options.records:,} records, best of"
        f" {rounds_text(found)}. Load of the machine before and after: {load:.1f},"
        f" {os.getloadavg()[0]:.1f}.\n"
    )
    if connect is not None:
        text += f"\n{connect_part(connect)}"
    print(text, *failed, sep="\n")
    if options.publish:
        publish_part(text, BEGIN, END)
    missed = any(is_missed(found, *each) for each in measured_jobs(found))
    return 1 if missed or failed else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.pipelines", description="the cost of pipelines")
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--lane", choices=(*LANES, "both"), default="both", help="Spark's lane")
    parser.add_argument("--records", type=int, default=2_000_000, help="records of each topic")
    parser.add_argument("--rounds", type=int, default=3, help="the most measurements of each job")
    parser.add_argument("--minutes", type=float, default=24, help="the time for all of it")
    everything = ",".join((*JOBS, CONNECT))
    parser.add_argument("--jobs", default=everything, help="which jobs")
    parser.add_argument("--publish", action="store_true", help="write docs/PERFORMANCE.md")
    return parser


def measure(
    lanes: list[str], names: list[str], options: argparse.Namespace
) -> tuple[list[Measured], Written | None]:
    """Write the records and run the jobs; a job with other rows than these has failed."""
    end_s = time.monotonic() + 60 * options.minutes - (CONNECT_S if CONNECT in names else 0)
    environments = {lane: made_environment(lane) for lane in lanes}
    found: list[Measured] = []
    with (
        tempfile.TemporaryDirectory(prefix="kwire-bench-") as name,
        BrokerProcess(Path(name) / "data") as broker,
        SchemaRegistry() as registry,
    ):
        directory = Path(name)
        python, environment = environments[lanes[0]]
        filling = [str(python), "-m", "bench.pipelines_topics", broker.bootstrap, registry.url]
        filling += [name, str(options.records)]
        subprocess.run(filling, env=environment, cwd=name, check=True)
        wait_for_high_watermarks(directory / "data", 3 * options.records)
        print(f"the topics are written; {end_s - time.monotonic():.0f} s are left", flush=True)
        for place, lane in enumerate(lanes):
            order = {
                "bootstrap": broker.bootstrap,
                "registry": registry.url,
                "data": str(directory / "data"),
                "directory": name,
                "jobs": [one for one in names if one in JOBS and lane in JOBS[one].lanes],
                "rounds": options.rounds,
                "seconds": (end_s - time.monotonic()) / (len(lanes) - place),
            }
            if not order["jobs"]:
                continue
            for one in run_lane(lane, *environments[lane], directory, order):
                if one.round and not one.error and one.rows != options.records:
                    one = one._replace(error=f"it has {one.rows:,} rows")
                print(f"{one.told}: {one.error or f'{one.seconds:.1f} s'}", flush=True)
                found.append(one)
        if CONNECT not in names:
            return found, None
        topic = "orders-json"
        return found, run_connect(broker.bootstrap, topic, directory / CONNECT, options.records)


def run_lane(
    lane: str, python: Path, environment: dict[str, str], directory: Path, order: dict[str, object]
) -> Iterator[Measured]:
    """Run the jobs in one lane; round 0 is that which warms up."""
    jars = [environment["KWIRE_SPARK_JARS"], *map(str, fetch_jars(f"bench-{lane}"))]
    where = directory / lane
    where.mkdir()
    log = where / "spark.log"
    with log.open("w", encoding="utf-8") as errors:
        run = subprocess.Popen(
            [str(python), "-m", "bench.pipelines_job", json.dumps(order | {"place": str(where)})],
            env=environment | {"KWIRE_SPARK_JARS": ",".join(jars)},
            cwd=where,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert run.stdout is not None
        for line in run.stdout:
            yield Measured(lane, **json.loads(line))
        if run.wait():
            said = log.read_text(encoding="utf-8")[-2000:]
            raise RuntimeError(f"Spark ended with {run.returncode}: {said}")


def measured_jobs(found: list[Measured]) -> list[tuple[str, str]]:
    """Job and lane of what was measured both ways, in the order of the table."""
    there = {(one.job, one.lane, one.way) for one in found if one.round and not one.error}
    ways = (KWIRE, BY_HAND)
    return [
        (job, lane)
        for job in JOBS
        for lane in LANES
        if all((job, lane, way) in there for way in ways)
    ]


def best(found: list[Measured], job: str, lane: str, way: str) -> Measured:
    """The fastest run."""
    of = (job, lane, way)
    runs = [
        one for one in found if one.round and not one.error and of == (one.job, one.lane, one.way)
    ]
    return min(runs, key=lambda one: one.seconds)


def ratio_of(found: list[Measured], job: str, lane: str) -> float:
    """How many times as fast as by hand kwire is."""
    return best(found, job, lane, BY_HAND).seconds / best(found, job, lane, KWIRE).seconds


def is_missed(found: list[Measured], job: str, lane: str) -> bool:
    """Whether a job has a bar and kwire is below it."""
    bar = JOBS[job].bar
    return bar is not None and ratio_of(found, job, lane) < bar


def rows_of(found: list[Measured], records: int) -> list[list[str]]:
    """The rows of the table, with its head."""
    head = ["job", "Spark", "by hand, records/s", "kwire, records/s", "ratio", "bar"]
    rows = [[*head, "CPU by hand, s", "CPU of kwire, s"]]
    for job, lane in measured_jobs(found):
        runs = [best(found, job, lane, way) for way in (BY_HAND, KWIRE)]
        cells = [f"{records / one.seconds:,.0f}" for one in runs]
        bar, is_met = JOBS[job].bar, not is_missed(found, job, lane)
        cells.append(f"{ratio_of(found, job, lane):.2f}")
        cells.append("" if bar is None else f"≥ {bar:g} {'met' if is_met else 'not met'}")
        cells += [f"{one.cpu_s:.1f}" for one in runs]
        rows.append([JOBS[job].title, LANES[lane], *cells])
    return rows


def rounds_text(found: list[Measured]) -> str:
    """How many rounds there were, by lane if they differ."""
    rounds: dict[str, int] = {}
    for one in found:
        rounds[one.lane] = max(one.round, rounds.get(one.lane, 0))
    if len(set(rounds.values())) <= 1:
        return str(max(rounds.values(), default=0))
    return " and ".join(f"{count} ({LANES[lane]})" for lane, count in rounds.items())


def connect_part(one: Written) -> str:
    """The table of Kafka Connect's file sink."""
    cpu_s = one.cpu_s / one.lines * 1_000_000
    head = ["job", "records/s", "CPU of a million records, s"]
    row = ["JSON to lines of text, by Kafka Connect", f"{one.lines / one.seconds:,.0f}"]
    return table([head, [*row, f"{cpu_s:.1f}"]], 1)


if __name__ == "__main__":
    sys.exit(main())
