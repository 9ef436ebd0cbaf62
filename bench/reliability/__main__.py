"""``python -m bench.reliability`` (``make reliability``): failures under load, kwire and Kafka.

The same scenarios hurt three kwires on three etcds and three Apache Kafkas, one after the other.
``--publish`` writes the tables into docs/RELIABILITY.md; what was published of scenarios that
aren't in this run stays. It exits with 1 if a record is lost or doubled, or if a scenario breaks
off; times are shown and never judged.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench.brokers import ROOT
from bench.choice import add_no
from bench.cluster.kills import TOPIC, create_topic
from bench.machine import machine
from bench.publish import between_markers
from bench.reliability.catalogue import GROUPS, NAMES, Group, Scenario
from bench.reliability.checks import check_equal, outcome
from bench.reliability.clusters import KAFKA, KWIRE, REPLICAS
from bench.reliability.kept import Kept, read
from bench.reliability.scenarios import PARTITIONS, Scenarios, Seen
from bench.reliability.table import BROKE_OFF, outcomes, table
from bench.rows.common import NotHere

PAGE = ROOT / "docs" / "RELIABILITY.md"
START = "<!-- reliability: made by `make reliability ARGS=--publish` -->\n"
END = "<!-- end of reliability -->\n"


class Run:
    """One run: its options, and what it has measured so far."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options = options
        self.console = console
        self.kept = Kept(machine="; ".join(f"{key}: {value}" for key, value in machine().items()))
        self.is_whole = True
        """Whether no scenario has broken off, and none has lost or doubled a record."""

    def hurt(self, system: str, group: Group, directory: Path) -> None:
        """Run the scenarios of a group on one system; a note if there can't be such a cluster."""
        wanted = {
            name: scenario
            for name, scenario in group.scenarios.items()
            if name in (self.options.only or NAMES)
        }
        if not wanted:
            return
        try:
            self._hurt(system, group, wanted, directory)
        except NotHere as reason:
            self._say(f"{system}, {', '.join(wanted)}: {reason}")

    def _hurt(
        self,
        system: str,
        group: Group,
        wanted: dict[str, Scenario],
        directory: Path,
    ) -> None:
        times = self.options.times if system == KWIRE else self.options.kafka_times
        with group.makers[system](directory) as trial:
            create_topic(
                trial.bootstrap, TOPIC, PARTITIONS, REPLICAS, config={"min.insync.replicas": "2"}
            )
            trial.wait_in_sync(TOPIC)
            scenarios = Scenarios(trial, times)
            for name, scenario in wanted.items():
                try:
                    self._one(system, name, scenario, scenarios)
                except AssertionError as reason:
                    self.is_whole = False
                    self._say(f"{system}, {name} broke off: {reason}")
                    trial.start_all()
            check_equal(trial, range(PARTITIONS))

    def _one(self, system: str, name: str, scenario: Scenario, scenarios: Scenarios) -> None:
        """One scenario, under a load of its own."""
        seen = []
        trial = scenarios.trial
        try:
            with scenarios.new_load(name) as load, scenarios.new_reading():
                for one in scenario(scenarios):
                    self._say(f"{system}, {one.scenario}: {one.what}: {one.seconds:.2f} s")
                    seen.append(one)
        except AssertionError:
            self.kept.add(system, name, [*seen, Seen(name, BROKE_OFF, 0.0)], None)
            raise
        for writer in load.writers:
            writer.settle()
        found = outcome(trial, load)
        if found.lost or found.doubled:
            self.is_whole = False
        if seen:
            self.kept.add(system, name, seen, found)

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


def main() -> int:
    """Run the scenarios, print the tables, perhaps publish them."""
    parser = argparse.ArgumentParser(prog="bench.reliability", description=__doc__)
    parser.add_argument("--only", choices=NAMES, action="append", help="only this scenario")
    parser.add_argument("--times", type=int, default=20, help="how often P1 kills a leader")
    parser.add_argument("--kafka-times", type=int, default=5, help="the same on Apache Kafka")
    parser.add_argument("--publish", action="store_true", help="write docs/RELIABILITY.md")
    add_no(parser, "kafka", "only kwire (KAFKA=no)")
    add_no(parser, "kwire", "only Apache Kafka")
    options = parser.parse_args()
    console = Console()
    systems = [name for name, asked in ((KWIRE, options.kwire), (KAFKA, options.kafka)) if asked]
    run = Run(options, console)
    with tempfile.TemporaryDirectory(prefix="kwire-reliability-") as name:
        for number, group in enumerate(GROUPS):
            for system in systems:
                run.hurt(system, group, Path(name) / f"{system} {number}")
                if options.publish:
                    publish(run.kept)
    print(made(run.kept))
    return int(not run.is_whole)


def made(kept: Kept) -> str:
    """The tables."""
    seen = {
        system: [one for rows in scenarios.values() for one in rows]
        for system, scenarios in kept.seen.items()
    }
    return f"{table(seen)}\n\n{outcomes(kept.outcomes)}"


def publish(newer: Kept) -> None:
    """Add a run to what is published, and write the page."""
    kept = read()
    kept.take(newer)
    kept.write()
    text = PAGE.read_text(encoding="utf-8")
    page = between_markers(text, f"{made(kept)}\n\n{kept.machine}\n", START, END)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
