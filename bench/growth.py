"""``python -m bench.growth``: how cost grows with connections, partitions, groups, record sizes.

It measures kwire and Apache Kafka. All steps of all curves take about ten minutes.

For each curve a new broker is started, warmed up, and loaded with more and more connections,
partitions and so on. A chart (SVG) and a JSON file give the cost of a request at each step: its
latency and the broker's CPU time. Brokers are measured one after the other; ``--no-kafka`` leaves
Apache Kafka out. The curves should have no cliff: flat for connections, partitions and groups,
proportional for bytes.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.brokers import Maker, MeasuredBroker
from bench.chart import draw_growth
from bench.choice import add_choice, brokers_of
from bench.lent_memory import touch
from bench.load import Generator, Load, ask, frame_of, new_generator, run_load
from bench.publish import OUT, publish_growth
from bench.report import Grown, Growth, cells_of, restarts_of
from bench.rows.common import (
    MOST_BYTES_A_SECOND,
    PRODUCE_VERSION,
    create_topic,
    next_offset,
    produce_request,
)
from bench.rows.members import Members
from bench.rows.warm_up import warm_up_of
from bench.usage import cpu_seconds, resident_mb
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

SECONDS = 2.0
ALL_STEPS = 1 << 31
TABLE_WIDTH = 130
PARTITIONS_PER_REQUEST = 500


class Point(NamedTuple):
    """One measurement at ``x``: latencies and CPU of a request in µs, requests per second."""

    x: int
    p50_us: float
    p99_us: float
    cpu_us: float
    requests_per_s: float
    memory_mb: float


class Curve(NamedTuple):
    """What grows, its steps, the function that measures them, and whether a restart keeps it."""

    name: str
    steps: tuple[int, ...]
    measure: Callable[["Measuring"], Iterator[Point]]
    stays: bool = False
    """Whether a restarted broker loads all of it again."""


class Measuring(NamedTuple):
    """A running broker, the load generator, and the steps to measure."""

    broker: MeasuredBroker
    generator: Generator
    steps: tuple[int, ...]


def point(
    measuring: Measuring,
    x: int,
    frame: bytes,
    connections: int,
    others: Callable[[], int] = lambda: 0,
) -> Point:
    """Load the broker for a while; ``others`` counts other requests that it answers meanwhile."""
    broker = measuring.broker
    before = cpu_seconds(broker.pid)
    others_before = others()
    load: Load = run_load(measuring.generator, broker.bootstrap, frame, connections, 1, SECONDS)
    used = cpu_seconds(broker.pid) - before
    return Point(
        x,
        load.p50_us,
        load.p99_us,
        used / (load.requests + others() - others_before) * 1e6,
        load.requests_per_s,
        resident_mb(broker.pid),
    )


def frame_to(broker: MeasuredBroker, topic: str, size_bytes: int) -> bytes:
    """A frame with a request that appends one record of this size."""
    request = produce_request(create_topic(broker.bootstrap, topic), 1, size_bytes)
    next_offset(broker.bootstrap, request)
    return frame_of(request, PRODUCE_VERSION)


def connections(measuring: Measuring) -> Iterator[Point]:
    """More and more connections, each with one request in flight."""
    frame = frame_to(measuring.broker, "growth", 100)
    for count in measuring.steps:
        yield point(measuring, count, frame, count)


def record_bytes(measuring: Measuring) -> Iterator[Point]:
    """Larger and larger records on one connection."""
    for size_bytes in measuring.steps:
        frame = frame_to(measuring.broker, f"growth-{size_bytes}", size_bytes)
        touch(int(SECONDS * MOST_BYTES_A_SECOND))
        yield point(measuring, size_bytes, frame, 1)


def partitions(measuring: Measuring) -> Iterator[Point]:
    """More and more partitions on the broker; one of them is written to."""
    broker = measuring.broker
    frame = frame_to(broker, "growth", 100)
    there = 1
    for count in measuring.steps:
        while there < count:
            more = min(PARTITIONS_PER_REQUEST, count - there)
            create_partitions(broker, f"many-{there}", more)
            there += more
        yield point(measuring, count, frame, 1)


def create_partitions(broker: MeasuredBroker, topic: str, count: int) -> None:
    """Create a topic with this many partitions."""
    wanted = CreatableTopic(name=topic, num_partitions=count, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=120_000)
    [answer] = ask(broker.bootstrap, request, 5).topics
    if answer.error_code:
        raise RuntimeError(f"{topic} can't be created: error {answer.error_code}")


def groups(measuring: Measuring) -> Iterator[Point]:
    """More and more groups of ten members, which send heartbeats during the load."""
    broker = measuring.broker
    frame = frame_to(broker, "growth", 100)
    members = Members(broker.bootstrap)
    there = 0
    for count in measuring.steps:
        while there < count:
            members.add_group(f"growth-{there}")
            there += 1
        with members:
            yield point(measuring, count, frame, 1, lambda: members.answered)
    members.close()


CURVES = (
    Curve("connections", (1, 2, 8, 32, 128, 512, 1000, 2000), connections),
    Curve("partitions", (1, 10, 100, 1000, 10_000), partitions, stays=True),
    Curve("groups of 10 members", (1, 10, 100, 1000), groups, stays=True),
    Curve("record bytes", (10, 100, 1000, 10_000, 100_000, 1_000_000), record_bytes),
)


def measured(
    curve: Curve, name: str, make: Maker, generator: Generator, root: Path, warm_up_s: float
) -> tuple[list[Point], float | None]:
    """The points of one broker; and the seconds of a restart, if the curve survives one."""
    broker = make(root / f"{name}-{curve.name.replace(' ', '-')}")
    broker.start()
    try:
        frame = frame_to(broker, "warm-up", 100)
        run_load(generator, broker.bootstrap, frame, 4, 4, warm_up_of(name, warm_up_s))
        points = list(curve.measure(Measuring(broker, generator, curve.steps)))
    finally:
        broker.stop()
    if not curve.stays:
        return points, None
    before = time.monotonic()
    broker.start()
    try:
        return points, time.monotonic() - before
    finally:
        broker.stop()


def table_of(name: str, curve: Grown) -> Table:
    """The points as a table."""
    heads, *rows = cells_of(name, curve)
    table = Table(title=f"cost by {name}")
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*row)
    table.caption = restarts_of(curve)
    return table


def main() -> None:
    """Measure, print, draw."""
    options = options_of()
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    makers = brokers_of(options, console)
    results: Growth = {}
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as directory:
        root = Path(directory)
        generator = new_generator(root)
        for curve in curves_of(options):
            made = curve._replace(steps=tuple(x for x in curve.steps if x <= options.most))
            points, restarts = {}, {}
            with Progress(console=console, transient=True) as progress:
                task = progress.add_task(curve.name, total=len(makers))
                for name, make in makers.items():
                    points[name], restarts[name] = measured(
                        made, name, make, generator, root, options.warm_up
                    )
                    progress.advance(task)
            results[curve.name] = {
                "points": {name: [one._asdict() for one in all_] for name, all_ in points.items()},
                "restart_s": {name: taken for name, taken in restarts.items() if taken},
            }
            console.print(table_of(curve.name, results[curve.name]))
    OUT.mkdir(exist_ok=True)
    (OUT / "growth.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    draw_growth(results, OUT / "growth.svg")
    console.print(f"written to {OUT / 'growth.json'} and {OUT / 'growth.svg'}")
    if options.publish:
        publish_growth(results)


def curves_of(options: argparse.Namespace) -> list[Curve]:
    """The curves that the options select."""
    return [curve for curve in CURVES if not options.only or options.only in curve.name]


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="bench.growth", description="how cost grows")
    add_choice(parser)
    parser.add_argument("--only", metavar="TEXT", help="only curves whose name contains TEXT")
    parser.add_argument("--most", type=int, default=ALL_STEPS, help="no step above this")
    parser.add_argument("--warm-up", type=float, default=10.0, help="seconds of load before")
    parser.add_argument("--publish", action="store_true", help="write docs/PERFORMANCE.md too")
    options = parser.parse_args(arguments)
    if not curves_of(options):
        names = ", ".join(curve.name for curve in CURVES)
        parser.error(f"no curve's name contains {options.only}; the curves are {names}")
    if options.publish and options.most < ALL_STEPS:
        parser.error("--publish needs whole curves: leave out --most")
    return options


if __name__ == "__main__":
    main()
