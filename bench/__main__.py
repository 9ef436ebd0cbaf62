"""``python -m bench`` (``make bench``): one table, a row for each thing measured.

Brokers are columns: kwire, and with ``--kafka`` (or KAFKA=yes) Apache Kafka with its ratio beside
it. Each is started anew as often as there are rounds, to measure that, and the last one stays:
it is warmed up, then the brokers are loaded in turn, round after round. The table shows medians;
all numbers are written as JSON to ``bench/out/``.
"""

import argparse
import contextlib
import json
import os
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.brokers import MeasuredBroker, new_broker
from bench.load import Generator, ask, new_generator
from bench.rows import ROWS
from bench.rows.common import PRODUCE_VERSION, Row, Running, create_topic, produce_request
from bench.rows.memory import IDLE_ROWS
from bench.rows.produce import request_rows
from bench.table import START, Results, selected, table_of

OUT = Path(__file__).parent / "out"


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``--quick`` is one short round."""
    parser = argparse.ArgumentParser(prog="bench", description="measure kwire")
    given = os.environ.get("KAFKA", "").lower() in ("yes", "1", "true")
    parser.add_argument(
        "--kafka", action="store_true", default=given, help="Apache Kafka beside it"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="load for each row")
    parser.add_argument(
        "--warm-up", type=float, default=None, help="seconds of load before (20 with Kafka, else 1)"
    )
    parser.add_argument("--quick", action="store_true", help="one round, half a second a row")
    parser.add_argument("--only", metavar="TEXT", help="only rows whose name has this")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    if options.warm_up is None:
        options.warm_up = 20.0 if options.kafka and not options.quick else 1.0
    return options


def started(broker: MeasuredBroker) -> float:
    """Start a broker; the seconds until it has acknowledged a record."""
    before = time.monotonic()
    broker.start()
    create_topic(broker.bootstrap, "first")
    ask(broker.bootstrap, produce_request("first", 1, 100), PRODUCE_VERSION)
    return time.monotonic() - before


def note(results: Results, rows: list[Row], name: str, running: Running) -> None:
    """Measure rows of one broker."""
    for row in rows:
        results.setdefault(row.name, {}).setdefault(name, []).append(row.measure(running))


def start_and_stay(
    name: str,
    stack: contextlib.ExitStack,
    generator: Generator,
    options: argparse.Namespace,
    results: Results,
) -> Running:
    """Start a broker as often as there are rounds; the last one stays, warmed up."""
    for n in range(options.rounds):
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"bench-{name}-"))
        broker = new_broker(name, Path(directory) / "data")
        running = Running(broker, generator, options.seconds)
        stays = n == options.rounds - 1
        with contextlib.ExitStack() as soon:
            (stack if stays else soon).callback(broker.stop)
            taken = started(broker)
            if not options.only or options.only in START.name:
                results.setdefault(START.name, {}).setdefault(name, []).append(taken)
            note(results, selected(IDLE_ROWS, options.only), name, running)
    if options.warm_up > 0:
        warm_up = Running(broker, generator, options.warm_up)
        request_rows("warm-up", 4, 4)[0].measure(warm_up)
    return running


def measure(
    options: argparse.Namespace, brokers: list[str], progress: Progress
) -> tuple[Results, dict[str, set[str]]]:
    """All rounds: the numbers, and for each broker the loads that the generator limited."""
    results: Results = {}
    rows = selected(ROWS, options.only)
    task = progress.add_task("", total=len(brokers) * (1 + options.rounds * len(rows)))
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        generator = new_generator(Path(directory))
        all_running = {}
        for name in brokers:
            progress.update(task, description=f"{name}: start and warm-up")
            all_running[name] = start_and_stay(name, stack, generator, options, results)
            progress.advance(task)
        for n in range(options.rounds):
            for name, running in all_running.items():
                running.runs.clear()
                running.times.clear()
                for row in rows:
                    progress.update(task, description=f"round {n + 1}, {name}: {row.name}")
                    note(results, [row], name, running)
                    progress.advance(task)
        return results, {name: running.limited for name, running in all_running.items()}


def main() -> None:
    """Measure and print."""
    options = options_of()
    brokers = ["kwire", "kafka"] if options.kafka else ["kwire"]
    console = Console()
    with Progress(console=console, transient=True) as progress:
        results, limited = measure(options, brokers, progress)
    console.print(table_of(results, brokers, limited))
    OUT.mkdir(exist_ok=True)
    target = OUT / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    target.write_text(json.dumps(results, indent=1), encoding="utf-8")
    console.print(f"written to {target}")


if __name__ == "__main__":
    main()
