"""``python -m bench`` (``make bench``): one table, a row for each thing measured, a column a
broker.

Brokers are measured in turn, round after round; the table shows medians, and with Apache Kafka
beside kwire (``--kafka``, or KAFKA=yes) their ratio, above 1 where kwire is ahead. The numbers are
written as JSON to ``bench/out/``.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.brokers import new_broker
from bench.load import ask, compile_generator
from bench.rows import PRODUCE_VERSION, ROWS, Row, Running, create_topic, produce_request

OUT = Path(__file__).parent / "out"
START = Row("start to first acknowledged record", "s", False, lambda running: 0.0)

Results = dict[str, dict[str, list[float]]]
"""row → broker → one number for each round."""


def ratio(row: Row, kwire: float, kafka: float) -> float:
    """How far kwire is ahead: above 1 it is, whichever way the row counts."""
    if not kwire or not kafka:
        return 0.0
    return kwire / kafka if row.more_is_better else kafka / kwire


def measure_broker(
    name: str, rows: list[Row], program: Path, seconds: float, results: Results, progress: Progress
) -> None:
    """Start a broker, measure every row, stop it."""
    task = progress.add_task(name, total=len(rows) + 1)
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as directory:
        broker = new_broker(name, Path(directory) / "data")
        started = time.monotonic()
        broker.start()
        try:
            create_topic(broker.bootstrap, "first")
            ask(broker.bootstrap, produce_request("first", 1, 100), PRODUCE_VERSION)
            taken = time.monotonic() - started
            results.setdefault(START.name, {}).setdefault(name, []).append(taken)
            progress.advance(task)
            running = Running(broker, program, seconds)
            for row in rows:
                progress.update(task, description=f"{name}: {row.name.strip()}")
                value = row.measure(running)
                results.setdefault(row.name, {}).setdefault(name, []).append(value)
                progress.advance(task)
        finally:
            broker.stop()
    progress.remove_task(task)


def table_of(results: Results, rows: list[Row], brokers: list[str]) -> Table:
    """The table of medians."""
    table = Table(title="medians; the ratio is above 1 where kwire is ahead")
    table.add_column("what")
    table.add_column("unit")
    for name in brokers:
        table.add_column(name, justify="right")
    if len(brokers) == 2:
        table.add_column("ratio", justify="right")
    for row in [START, *rows]:
        medians = [statistics.median(results[row.name][name]) for name in brokers]
        cells = [f"{value:,.2f}" if value < 10 else f"{value:,.0f}" for value in medians]
        if len(brokers) == 2:
            cells.append(f"{ratio(row, medians[0], medians[1]):.2f}")
        table.add_row(row.name, row.unit, *cells)
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description="measure kwire")
    given = os.environ.get("KAFKA", "").lower() in ("yes", "1", "true")
    parser.add_argument(
        "--kafka", action="store_true", default=given, help="Apache Kafka beside it"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="load for each row")
    parser.add_argument("--only", metavar="TEXT", help="only rows whose name has this")
    options = parser.parse_args()
    rows = [row for row in ROWS if options.only is None or options.only in row.name]
    brokers = ["kwire", "kafka"] if options.kafka else ["kwire"]
    results: Results = {}
    console = Console()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, Progress(console=console) as p:
        program = compile_generator(Path(directory))
        rounds = p.add_task("rounds", total=options.rounds)
        for _ in range(options.rounds):
            for name in brokers:
                measure_broker(name, rows, program, options.seconds, results, p)
            p.advance(rounds)
    console.print(table_of(results, rows, brokers))
    OUT.mkdir(exist_ok=True)
    target = OUT / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    target.write_text(json.dumps(results, indent=1), encoding="utf-8")
    console.print(f"written to {target}")


if __name__ == "__main__":
    main()
