"""``python -m bench.growth``: how cost grows with connections, partitions and the size of records.

For each of these a broker is started anew and loaded with more and more of it; a chart (SVG) and a
JSON file say what a request then costs: its latency, and the broker's CPU. ``--kafka`` puts Apache
Kafka beside it. What should be seen is a line without a cliff: flat for connections and partitions,
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

from bench.brokers import MeasuredBroker, new_broker
from bench.load import Generator, Load, ask, frame_of, new_generator, run_load
from bench.rows.common import PRODUCE_VERSION, create_topic, next_offset, produce_request
from bench.usage import cpu_seconds, resident_mb
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

OUT = Path(__file__).parent / "out"
SECONDS = 2.0
PARTITIONS_PER_REQUEST = 500


class Point(NamedTuple):
    """One measurement: at ``x``; microseconds, CPU microseconds a request, requests a second."""

    x: int
    p50_us: float
    p99_us: float
    cpu_us: float
    requests_per_s: float
    memory_mb: float


class Curve(NamedTuple):
    """What grows, its steps, and how a broker is measured at each of them."""

    name: str
    steps: tuple[int, ...]
    measure: Callable[["Measuring"], Iterator[Point]]


class Measuring(NamedTuple):
    """A running broker and what to load it with."""

    broker: MeasuredBroker
    generator: Generator
    steps: tuple[int, ...]


def point(measuring: Measuring, x: int, frame: bytes, connections: int) -> Point:
    """Load the broker for a while."""
    broker = measuring.broker
    before = cpu_seconds(broker.pid)
    load: Load = run_load(measuring.generator, broker.bootstrap, frame, connections, 1, SECONDS)
    used = cpu_seconds(broker.pid) - before
    return Point(
        x,
        load.p50_us,
        load.p99_us,
        used / load.requests * 1e6,
        load.requests_per_s,
        resident_mb(broker.pid),
    )


def frame_to(broker: MeasuredBroker, topic: str, size_bytes: int) -> bytes:
    """A request that appends one record of a size."""
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
    """A topic with so many partitions."""
    wanted = CreatableTopic(name=topic, num_partitions=count, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=120_000)
    [answer] = ask(broker.bootstrap, request, 5).topics
    if answer.error_code:
        raise RuntimeError(f"{topic} can't be created: error {answer.error_code}")


CURVES = (
    Curve("connections", (1, 2, 8, 32, 128, 512, 1000, 2000), connections),
    Curve("partitions", (1, 10, 100, 1000, 10_000), partitions),
    Curve("record bytes", (10, 100, 1000, 10_000, 100_000, 1_000_000), record_bytes),
)


def measured(
    curve: Curve, name: str, generator: Generator, root: Path
) -> tuple[list[Point], float]:
    """The points of one broker, and the seconds a restart takes with all that is there then."""
    broker = new_broker(name, root / f"{name}-{curve.name.replace(' ', '-')}")
    broker.start()
    try:
        points = list(curve.measure(Measuring(broker, generator, curve.steps)))
    finally:
        broker.stop()
    before = time.monotonic()
    broker.start()
    try:
        return points, time.monotonic() - before
    finally:
        broker.stop()


def table_of(curve: Curve, points: dict[str, list[Point]], restarts: dict[str, float]) -> Table:
    """The points as a table."""
    table = Table(title=f"cost by {curve.name}")
    table.add_column(curve.name, justify="right")
    for name in points:
        for what in ("p50 µs", "p99 µs", "CPU µs", "req/s", "MB"):
            table.add_column(f"{name} {what}", justify="right")
    for row in zip(*points.values(), strict=True):
        numbers = [f"{number:,.0f}" for one in row for number in one[1:]]
        table.add_row(f"{row[0].x:,}", *numbers)
    table.caption = ", ".join(
        f"{name} starts again in {taken:.2f} s" for name, taken in restarts.items()
    )
    return table


def draw(results: dict[str, dict[str, list[Point]]], target: Path) -> None:
    """One chart for each curve: latency and CPU, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(results), figsize=(5 * len(results), 8), squeeze=False)
    for column, (curve, by_broker) in enumerate(results.items()):
        for row, (what, unit) in enumerate(
            (("p50_us", "p50, µs"), ("cpu_us", "CPU a request, µs"))
        ):
            axis = axes[row][column]
            for name, points in by_broker.items():
                values = [getattr(one, what) for one in points]
                axis.plot([one.x for one in points], values, marker="o", label=name)
            axis.set(xscale="log", yscale="log", xlabel=curve, ylabel=unit)
            axis.grid(visible=True, which="major", alpha=0.3)
            axis.legend()
    figure.tight_layout()
    figure.savefig(target)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="bench.growth", description="how cost grows")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka beside it")
    parser.add_argument("--only", metavar="TEXT", help="only curves whose name has this")
    parser.add_argument("--most", type=int, default=1 << 31, help="no step beyond this")
    options = parser.parse_args()
    names = ["kwire", "kafka"] if options.kafka else ["kwire"]
    console = Console()
    results: dict[str, dict[str, list[Point]]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as directory:
        root = Path(directory)
        generator = new_generator(root)
        for curve in CURVES:
            if options.only and options.only not in curve.name:
                continue
            steps = tuple(step for step in curve.steps if step <= options.most)
            with Progress(console=console, transient=True) as progress:
                task = progress.add_task(curve.name, total=len(names))
                points, restarts = {}, {}
                for name in names:
                    made = curve._replace(steps=steps)
                    points[name], restarts[name] = measured(made, name, generator, root)
                    progress.advance(task)
            results[curve.name] = points
            console.print(table_of(curve, points, restarts))
    OUT.mkdir(exist_ok=True)
    (OUT / "growth.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    draw(results, OUT / "growth.svg")
    console.print(f"written to {OUT / 'growth.json'} and {OUT / 'growth.svg'}")


if __name__ == "__main__":
    main()
