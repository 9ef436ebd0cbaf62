"""``python -m bench.cluster`` (``make bench-cluster``): what a cluster costs, with bars.

etcd and all brokers run on this machine. ``--publish`` writes the table into docs/PERFORMANCE.md;
do this on a machine that does nothing else. ``--only PART`` (``PARTS``) measures a part; the others
keep their published numbers, which are in docs/performance/cluster.json. ``--only replicated``
measures three replicas against three Apache Kafkas, which has a table of its own. It exits with 1
if a bar is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.brokers import ROOT
from bench.choice import add_no
from bench.cluster.etcd_kills import leader_killed, stopped
from bench.cluster.groups import first_rebalance
from bench.cluster.kills import ClusterTrial
from bench.cluster.measure import Number, table
from bench.cluster.metadata import large, small
from bench.cluster.replicated import measure
from bench.cluster.replicated import table as replicated_table
from bench.cluster.takeover import takeover
from bench.cluster.worker_kills import WorkersTrial
from bench.cluster.workers import numbers as workers
from bench.machine import machine
from bench.publish import PERFORMANCE, between_markers
from bench.published import compact

START = "<!-- cluster: made by `make bench-cluster ARGS=--publish` -->\n"
END = "<!-- end of cluster -->\n"
REPLICATED_START = (
    '<!-- replicated: made by `make bench-cluster ARGS="--only replicated --publish"` -->\n'
)
REPLICATED_END = "<!-- end of replicated -->\n"
REPLICATED = "replicated"
PARTS = (
    *("metadata", "groups", "start", "takeover", "image", "workers"),
    *("controller", "etcd", "kills"),
)
PAPER = 1_000_000
KEPT = ROOT / "docs" / "performance" / "cluster.json"


def main() -> int:
    """Measure, print, perhaps publish; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench.cluster", description="what a cluster costs")
    parser.add_argument(
        "--only", choices=(*PARTS, REPLICATED), action="append", help="only this part"
    )
    parser.add_argument("--changes", type=int, default=1000, help="changes of metadata")
    parser.add_argument("--partitions", type=int, default=10_000, help="of three brokers, and x 3")
    parser.add_argument("--image", type=int, default=100_000, help="partitions in the image")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--kills", type=int, default=12, help="of workers, in turn")
    parser.add_argument("--of", type=int, default=2, help="so many workers are killed in turn")
    parser.add_argument("--leaders", type=int, default=8, help="of etcd, killed in turn")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds without an etcd")
    parser.add_argument("--rounds", type=int, default=3, help="of loads on workers or replicas")
    add_no(parser, "kafka", "three replicas of kwire alone")
    parser.add_argument("--publish", action="store_true", help="write docs/PERFORMANCE.md")
    options = parser.parse_args()
    if options.only == [REPLICATED]:
        return replicated(options)
    console = Console()
    found: dict[str, list[Number]] = {}
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as name:
        for part in options.only or PARTS:
            for number in _measured(part, Path(name), options):
                console.print(f"{number.name}: {number.value:,.4g} {number.unit}", highlight=False)
                found.setdefault(part, []).append(number)
    numbers = [number for part in found.values() for number in part]
    print(table(numbers))
    if options.publish:
        publish(found)
    return 0 if all(number.is_met for number in numbers) else 1


def _measured(part: str, directory: Path, options: argparse.Namespace) -> Iterator[Number]:
    """The numbers of a part; AssertionError where a record is lost, doubled or moved."""
    measures: dict[str, Callable[[Path], Iterator[Number]]] = {
        "metadata": partial(small, changes=options.changes),
        "groups": first_rebalance,
        "start": partial(large, partitions=options.partitions),
        "takeover": partial(takeover, partitions=options.partitions),
        "image": lambda _: image(options.image),
        "workers": partial(workers, seconds=options.seconds, rounds=options.rounds),
        "controller": lambda place: ClusterTrial(place).run(ClusterTrial.controllers),
        "etcd": lambda place: ClusterTrial(place).run(
            partial(leader_killed, kills=options.leaders),
            partial(stopped, outage_s=options.outage),
        ),
        "kills": lambda place: WorkersTrial(place, options.of).run(options.kills),
    }
    return measures[part](directory / part)


def image(partitions: int) -> Iterator[Number]:
    """The numbers of a large image, and on paper those of a million partitions."""
    command = [sys.executable, "-m", "bench.cluster.image", str(partitions)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    for line in run.stdout.splitlines():
        number = Number(*json.loads(line))
        yield number
        what = number.name.partition(": ")[2]
        name = f"on paper, {PAPER:,} partitions: {what}"
        yield Number(name, number.value * PAPER / partitions, number.unit)


def replicated(options: argparse.Namespace) -> int:
    """The table of three replicas; 1 if a bar is missed."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as name:
        rows = list(
            measure(
                Path(name) / REPLICATED,
                seconds=options.seconds,
                rounds=options.rounds,
                with_kafka=options.kafka,
                say=console.print,
            )
        )
    made = replicated_table(rows)
    print(made)
    if options.publish:
        text = PERFORMANCE.read_text(encoding="utf-8")
        facts = "; ".join(f"{name}: {value}" for name, value in machine().items())
        page = between_markers(text, f"{made}\n\n{facts}\n", REPLICATED_START, REPLICATED_END)
        PERFORMANCE.write_text(page, encoding="utf-8")
    return 0 if all(row.is_met for row in rows) else 1


def publish(found: Mapping[str, Sequence[Number]]) -> None:
    """Put the table and the machine between the marks in docs/PERFORMANCE.md.

    Parts that weren't measured now keep the numbers of their last run.
    """
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    kept |= found
    ordered = {part: kept[part] for part in PARTS if part in kept}
    KEPT.write_text(compact(ordered) + "\n", encoding="utf-8")
    numbers = [Number(*row) for part in ordered.values() for row in part]
    text = PERFORMANCE.read_text(encoding="utf-8")
    facts = "; ".join(f"{name}: {value}" for name, value in machine().items() if name != "Java")
    made = between_markers(text, f"{table(numbers)}\n\n{facts}\n", START, END)
    PERFORMANCE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
