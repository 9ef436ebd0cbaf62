"""``python -m bench`` (``make bench``): kwire and Apache Kafka side by side, in one table.

Without Java, or with KAFKA=no, kwire is measured alone. The numbers are written to ``bench/out/``,
as JSON and as a chart. ``--publish`` also writes the documents.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

from rich.console import Console

from bench.brokers import KAFKA, Maker
from bench.chart import draw_ratios
from bench.choice import add_choice, brokers_of
from bench.pace import Teller, minutes
from bench.profile import PUBLISHED as PROFILES
from bench.profile import profile
from bench.publish import OUT, publish
from bench.published import read_run
from bench.report import Run, behind, table_of
from bench.rows import ALL_ROWS
from bench.session import Session, limits_of_the_machine, selected

WARM_UP_S = 20.0
LIMITS_S = 1.0
TABLE_WIDTH = 170


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; ``--quick`` makes one short round."""
    parser = argparse.ArgumentParser(prog="bench", description="measure kwire and Apache Kafka")
    add_choice(parser)
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--rounds", type=int, default=3, help="measurements per row")
    parser.add_argument("--slow-rounds", type=int, default=2, help="measurements per slow row")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of load per row")
    parser.add_argument("--mix-seconds", type=float, default=60.0, help="length of the mix")
    parser.add_argument("--spark-mb", type=int, default=1000, help="megabytes that Spark reads")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, help="seconds of load before")
    parser.add_argument("--quick", action="store_true", help="one round, half a second a row")
    parser.add_argument("--only", metavar="TEXT", help="only rows whose name contains TEXT")
    parser.add_argument("--profile", action="store_true", help="show where kwire spends its time")
    parser.add_argument("--publish", action="store_true", help="write README and docs/performance")
    options = parser.parse_args(arguments)
    if not selected(ALL_ROWS, options.only):
        parser.error(f"no row's name contains {options.only}; docs/PERFORMANCE.md lists all rows")
    if options.rounds < 1 or options.slow_rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --slow-rounds must be at least 1, --seconds more than 0")
    if options.publish and not options.profile and (options.quick or options.only):
        parser.error("--publish needs the whole table: leave out --quick and --only")
    if options.quick:
        options.rounds, options.seconds, options.warm_up = 1, 0.5, min(options.warm_up, 2.0)
        options.mix_seconds, options.spark_mb = 5.0, 100
    return options


def say(run: Run, console: Console) -> None:
    """Print a run."""
    console.print(table_of(run))
    if KAFKA in run["brokers"]:
        missed = [line.row.name for line in behind(run)]
        console.print(f"bars not met: {'; '.join(missed) or 'none'}", highlight=False)
    for note in run["notes"]:
        console.print(f"not measured: {note}", highlight=False)


def profile_rows(options: argparse.Namespace, makers: dict[str, Maker], console: Console) -> None:
    """Profile the rows given by ``--only``; without it, the rows that have missed their bar."""
    rows = selected(ALL_ROWS, options.only)
    if options.only is None:
        published = read_run()
        rows = [line.row for line in behind(published)] if published else []
    target = PROFILES if options.publish else OUT / "profiles"
    profile(makers, rows, options.seconds, target, console)
    if options.publish and (published := read_run()):
        publish(published)


def keep(run: Run, target: Path) -> None:
    """Write the measurements so far."""
    target.write_text(json.dumps(run, indent=1), encoding="utf-8")


def main() -> int:
    """Measure, print, write; returns 1 if a row failed."""
    options = options_of()
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    makers = brokers_of(options, console)
    if options.publish and not options.profile and KAFKA not in makers:
        console.print("--publish needs Apache Kafka")
        return 1
    if options.profile:
        profile_rows(options, makers, console)
        return 0
    session = Session(options, makers, Teller(console))
    console.print(f"{', '.join(makers)}: about {minutes(session.usual_s)}", highlight=False)
    if "Python" in session.run["machine"]["load generator"]:
        console.print("without a C compiler the load generator is in Python and often the limit")
    session.run["limits"] = limits_of_the_machine(min(options.seconds, LIMITS_S))
    # SIGTERM ends the run like Ctrl-C, so that the measurements so far are kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = session.run
    OUT.mkdir(exist_ok=True)
    target = OUT / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    try:
        for _ in session.rounds():
            keep(run, target)
    except KeyboardInterrupt:
        run["notes"].append("the run was ended early")
    keep(run, target)
    say(run, console)
    console.print(f"written to {target}")
    if KAFKA in makers:
        draw_ratios(run, target.with_suffix(".svg"))
    if options.publish:
        publish(run)
    return 1 if run.get("failed") else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
