"""``python -m bench.hostile`` (``make hostile``): what one hostile client costs its neighbors.

Well-behaved clients (``bench.neighbor``) are measured alone, and then beside a client that sends
one of the requests of ``bench.attacks`` in a loop. Each attack is a row: the 99th percentile and
the longest wait of a producer and its consumer, the ratio to their wait without the attack, the
longest wait for a record that is synced and for a new topic, and the broker's memory above its
memory before the attack. kwire and Apache Kafka are shown side by side. The broker, its attacker
and the well-behaved clients are three processes.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.attacks import ATTACKS, Attack
from bench.brokers import Maker, MeasuredBroker, titles
from bench.choice import add_choice, brokers_of
from bench.hostile_table import ALONE, CONTROL, HEADS, Kept, cells_of
from bench.load import frame_of, new_generator, run_load
from bench.publish import OUT, publish_hostile
from bench.rows.common import PRODUCE_VERSION, create_topic, next_offset, produce_request
from bench.rows.warm_up import warm_up_of
from bench.usage import MB, peak_mb, resident_mb, start_peak

TABLE_WIDTH = 150
STARTS_S = 60

ELSEWHERE = 19
"""The niceness of a program that stands for another machine: it gets the processors that the broker
and its neighbors leave, and takes none from them."""


class Waits(NamedTuple):
    """The neighbors' waits in milliseconds, and the broker's additional memory in MB.

    ``flush_ms`` and ``create_ms`` are the longest waits for a synced record and for a new topic.
    ``request_mb`` is what the attacker's connections send at the same time.
    """

    p50_ms: float
    p99_ms: float
    longest_ms: float
    flush_ms: float
    create_ms: float
    more_mb: float = 0.0
    request_mb: float = 0.0


NO_ANSWER = Waits(*[math.inf] * 6)


Results: TypeAlias = dict[str, dict[str, Waits]]
"""Waits by the attack's name and by the broker's."""


def at(share: float, values: list[float]) -> float:
    """The value below which this share of the sorted ``values`` lies."""
    return values[min(int(share * len(values)), len(values) - 1)]


def neighbor(broker: MeasuredBroker, seconds: float) -> tuple[Waits, float]:
    """The waits of well-behaved clients for a while, and the broker's peak memory in that time."""
    start_peak(broker.pid)
    run = subprocess.run(
        [sys.executable, "-m", "bench.neighbor", broker.bootstrap, "neighbor", str(seconds)],
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + STARTS_S,
    )
    taken = json.loads(run.stdout)
    waits = sorted(1000 * wait for wait in [*taken["produce"], *taken["deliver"]])
    # A neighbor that never got an answer has no longest wait.
    longest = (max(taken[name], default=math.inf) for name in ("flush", "create"))
    flush_ms, create_ms = (1000 * wait for wait in longest)
    found = Waits(at(0.5, waits), at(0.99, waits), waits[-1], flush_ms, create_ms)
    return found, peak_mb(broker.pid)


@contextmanager
def busy_processors() -> Iterator[None]:
    """Let two programs compute without an end, and without a word to the broker."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    for program in programs:
        os.setpriority(os.PRIO_PROCESS, program.pid, ELSEWHERE)
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


@contextmanager
def under_attack(broker: MeasuredBroker, attack: Attack, directory: Path) -> Iterator[float]:
    """Let another process attack the broker; gives the MB that it sends at the same time."""
    file = directory / "frames"
    frames = attack.frames(broker.bootstrap)
    file.write_bytes(b"".join(frames))
    arguments = [broker.bootstrap, str(attack.connections), str(file)]
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.attacker", *arguments], stdout=subprocess.PIPE
    )
    os.setpriority(os.PRIO_PROCESS, process.pid, ELSEWHERE)
    try:
        yield attack.connections * max(map(len, frames)) / MB
        if process.poll() is not None:
            raise RuntimeError(f"{attack.name}: the attacker has ended by itself")
    finally:
        process.terminate()
        process.communicate(timeout=STARTS_S)


def measured(
    broker: MeasuredBroker, attacks: list[Attack], seconds: float, directory: Path
) -> Iterator[tuple[str, Waits]]:
    """Measure the neighbors alone, then beside each attack."""
    alone, idle_mb = neighbor(broker, seconds)
    yield ALONE, alone
    with busy_processors():
        yield CONTROL, neighbor(broker, seconds)[0]
    for attack in attacks:
        idle_mb = resident_mb(broker.pid)
        try:
            with under_attack(broker, attack, directory) as request_mb:
                waits, peak = neighbor(broker, seconds)
        except (subprocess.SubprocessError, OSError, RuntimeError):
            broker.kill()  # it doesn't answer any more, or has died of the attack
            broker.start()
            yield attack.name, NO_ANSWER
        else:
            more_mb = max(0.0, peak - idle_mb)
            yield attack.name, waits._replace(more_mb=more_mb, request_mb=request_mb)


def table_of(results: Results, names: list[str]) -> Table:
    """A table with a row for each attack and the columns of ``HEADS`` for each broker."""
    table = Table(title="well-behaved clients beside a hostile one")
    table.add_column("attack")
    for title in titles(names).values():
        for head in HEADS:
            table.add_column(f"{title}: {head}", justify="right")
    kept = as_kept(results)
    for attack, by_broker in kept.items():
        cells = []
        for name in names:
            cells += cells_of(by_broker.get(name), kept[ALONE][name])
        table.add_row(attack, *cells)
    return table


def as_kept(results: Results) -> Kept:
    """The results as JSON has them."""
    return {
        attack: {name: waits._asdict() for name, waits in row.items()}
        for attack, row in results.items()
    }


def kept_before() -> Results:
    """What ``hostile.json`` has of a run that broke off."""
    path = OUT / "hostile.json"
    kept: Kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        attack: {name: Waits(**waits) for name, waits in row.items()}
        for attack, row in kept.items()
    }


def keep(results: Results) -> None:
    """Write what is measured so far to ``hostile.json``."""
    OUT.mkdir(exist_ok=True)
    kept = as_kept(results)
    (OUT / "hostile.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="bench.hostile", description="hostile clients")
    add_choice(parser)
    parser.add_argument("--only", metavar="TEXT", default="", help="only attacks with TEXT in them")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of each attack")
    parser.add_argument("--publish", action="store_true", help="write docs/PERFORMANCE.md")
    parser.add_argument("--rounds", type=int, default=1, help="so often; the medians count")
    parser.add_argument("--go-on", action="store_true", help="only what a broken-off run lacks")
    parser.add_argument("--warm-up", type=float, default=10.0, help="seconds of load before")
    options = parser.parse_args(arguments)
    if not wanted(options.only):
        names = ", ".join(attack.name for attack in ATTACKS)
        parser.error(f"no attack's name contains {options.only}; the attacks are {names}")
    return options


def wanted(text: str) -> list[Attack]:
    """The attacks whose name contains ``text``."""
    return [attack for attack in ATTACKS if text in attack.name]


def median_of(rounds: Sequence[Waits]) -> Waits:
    """The median of each figure, infinite if one of the rounds in the middle had no answer."""
    return Waits(*(median(values) for values in zip(*rounds, strict=True)))


def measure(
    name: str, make: Maker, attacks: list[Attack], options: argparse.Namespace, root: Path
) -> Iterator[tuple[str, Waits]]:
    """Warm a new broker up and measure on it, see ``measured``."""
    root.mkdir()
    broker = make(root / "broker")
    broker.start()
    try:
        request = produce_request(create_topic(broker.bootstrap, "warm-up"), 1, 100)
        next_offset(broker.bootstrap, request)
        frame = frame_of(request, PRODUCE_VERSION)
        warm_up_s = warm_up_of(name, options.warm_up)
        run_load(new_generator(root), broker.bootstrap, frame, 4, 4, warm_up_s)
        yield from measured(broker, attacks, options.seconds, root)
    finally:
        broker.stop()


def main() -> None:
    """Measure and print."""
    options = options_of()
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    makers = brokers_of(options, console)
    attacks = wanted(options.only)
    results = kept_before() if options.go_on else {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-hostile-") as directory,
        Progress(console=console, transient=True) as progress,
    ):
        for name, make in makers.items():
            left = [one for one in attacks if name not in results.get(one.name, {})]
            if options.go_on and not left:
                continue
            task = progress.add_task(titles([name])[name], total=options.rounds * (len(left) + 2))
            taken: dict[str, list[Waits]] = {}
            for number in range(options.rounds):
                root = Path(directory) / f"{name}-{number}"
                for attack, waits in measure(name, make, left, options, root):
                    taken.setdefault(attack, []).append(waits)
                    results.setdefault(attack, {})[name] = median_of(taken[attack])
                    keep(results)
                    progress.advance(task)
    console.print(table_of(results, list(makers)))
    if options.publish:
        publish_hostile(as_kept(results), [attack.name for attack in ATTACKS])


if __name__ == "__main__":
    main()
