"""``python -m bench.reliability`` (``make reliability``): failures under load, kwire and Kafka.

The same scenarios hurt three kwires on three etcds and three Apache Kafkas, one after the other.
``--publish`` writes the tables into docs/RELIABILITY.md. It exits with 1 if a record is lost or
doubled; times are shown and never judged.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench.brokers import ROOT
from bench.choice import add_no
from bench.cluster.kills import TOPIC, create_topic
from bench.compiled import NotCompiled, compiled_kwire
from bench.machine import machine
from bench.publish import between_markers
from bench.reliability.checks import Outcome, check_equal, outcome
from bench.reliability.clusters import KAFKA, KWIRE, REPLICAS, kafka, kwire
from bench.reliability.scenarios import PARTITIONS, Scenarios, Seen
from bench.reliability.table import outcomes, table

PAGE = ROOT / "docs" / "RELIABILITY.md"
START = "<!-- reliability: made by `make reliability ARGS=--publish` -->\n"
END = "<!-- end of reliability -->\n"
SYSTEMS = {KWIRE: kwire, KAFKA: kafka}


def main() -> int:
    """Run the scenarios, print the tables, perhaps publish them."""
    parser = argparse.ArgumentParser(prog="bench.reliability", description=__doc__)
    names = tuple(Scenarios.by_name())
    parser.add_argument("--only", choices=names, action="append", help="only this scenario")
    parser.add_argument("--times", type=int, default=20, help="how often P1 kills a leader")
    parser.add_argument("--publish", action="store_true", help="write docs/RELIABILITY.md")
    add_no(parser, "kafka", "only kwire (KAFKA=no)")
    add_no(parser, "kwire", "only Apache Kafka")
    add_no(parser, "compiled", "in pure Python (COMPILED=no)")
    options = parser.parse_args()
    console = Console()
    systems = [name for name, asked in ((KWIRE, options.kwire), (KAFKA, options.kafka)) if asked]
    package = _package(console) if options.compiled else ROOT
    seen: dict[str, list[Seen]] = {}
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="kwire-reliability-") as name:
        for system in systems:
            rows, seen_after = _hurt(
                system, Path(name) / system, package, options.only or names, options.times, console
            )
            seen[system], found[system] = rows, seen_after
    made = f"{table(seen)}\n\n{outcomes(found)}"
    print(made)
    if options.publish:
        facts = "; ".join(f"{key}: {value}" for key, value in machine().items())
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(between_markers(text, f"{made}\n\n{facts}\n", START, END), encoding="utf-8")
    return int(any(one.lost or one.doubled for one in found.values()))


def _hurt(
    system: str,
    directory: Path,
    package: Path,
    names: tuple[str, ...] | list[str],
    times: int,
    console: Console,
) -> tuple[list[Seen], Outcome]:
    """Run scenarios on one system."""
    rows: list[Seen] = []
    with SYSTEMS[system](directory, package) as trial:
        create_topic(
            trial.bootstrap, TOPIC, PARTITIONS, REPLICAS, config={"min.insync.replicas": "2"}
        )
        trial.wait_in_sync(TOPIC)
        scenarios = Scenarios(trial, times)
        with scenarios.load as load:
            for name in names:
                for one in Scenarios.by_name()[name](scenarios):
                    console.print(
                        f"{system}, {one.scenario}: {one.what}: {one.seconds:.2f} s",
                        highlight=False,
                    )
                    rows.append(one)
        for writer in load.writers:
            writer.settle()
        after = outcome(trial, load)
        check_equal(trial, range(PARTITIONS))
    return rows, after


def _package(console: Console) -> Path:
    """The directory of the compiled kwire, or of the sources where it can't be compiled."""
    try:
        return compiled_kwire(console)
    except NotCompiled as reason:
        console.print(f"in pure Python: {reason}", highlight=False)
        return ROOT


if __name__ == "__main__":
    sys.exit(main())
