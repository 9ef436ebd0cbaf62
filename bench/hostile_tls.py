"""``make hostile-tls``: what a hostile client of TLS and of logins costs its neighbors.

Well-behaved clients, which have logged in over TLS (``bench.tls_neighbor``), are measured alone and
then beside each attack of ``bench.tls_attacker``, which comes from another address. A row has the
median, the 99th percentile and the longest wait of a producer and its consumer, the longest wait of
a client that logs in anew, how often the attacker has done in a second what the row says, and the
broker's memory above its memory before the attack. Takes about three minutes. KAFKA=no measures
only kwire; ``--publish`` writes docs/PERFORMANCE.md.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.apache_kafka import missing
from bench.brokers import KAFKA, KWIRE, TITLES, MeasuredBroker
from bench.hostile import ELSEWHERE, STARTS_S, at, busy_processors
from bench.hostile_table import ALONE, CONTROL, MOST_MS, MOST_TIMES
from bench.publish import markdown_table, publish_part
from bench.tls import kafka_of, kwire_of, settings_of
from bench.tls_attacker import ATTACKS
from bench.tls_logins import SETTINGS
from bench.usage import peak_mb, resident_mb, start_peak
from compat_tests.secured import create_users
from tests.support.ports import free_port

BEGIN = "<!-- hostile-tls: made by `make hostile-tls ARGS=--publish` -->\n"
END = "<!-- end of hostile-tls -->\n"
HEADS = ("p50 ms", "p99 ms", "longest ms", "new login ms", "a second", "MB more")
WARM_UP_S = {KAFKA: 10.0}
"""Java compiles what has run often; kwire gets a second."""


class Waits(NamedTuple):
    """The neighbors' waits in milliseconds, infinite where the broker gave no answer any more.

    ``login_ms`` is the longest of clients that log in anew. ``rate`` is how often the attacker did
    in a second what it does.
    """

    p50_ms: float
    p99_ms: float
    longest_ms: float
    login_ms: float
    rate: float = 0.0
    more_mb: float = 0.0


NO_ANSWER = Waits(*[math.inf] * 4)
NOT_POSSIBLE = Waits(*[math.nan] * 4)
"""The attacker could not even begin."""
Results: TypeAlias = dict[str, dict[str, Waits]]
"""Waits by the attack's name and by the broker's."""


class Subject(NamedTuple):
    """A broker with a listener SASL_SSL at ``secured``."""

    broker: MeasuredBroker
    secured: str
    ca: Path

    def neighbors(self, seconds: float) -> Waits:
        """The waits of well-behaved clients for a while."""
        addresses = [self.broker.bootstrap.split(",")[0], self.secured]
        run = subprocess.run(
            [sys.executable, "-m", "bench.tls_neighbor", *addresses, str(self.ca), str(seconds)],
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds + STARTS_S,
        )
        taken = json.loads(run.stdout)
        waits = sorted(1000 * wait for wait in [*taken["produce"], *taken["deliver"]])
        login_ms = 1000 * max(taken["login"], default=math.inf)
        return Waits(at(0.5, waits), at(0.99, waits), waits[-1], login_ms)

    def beside(self, attack: str, seconds: float) -> Waits:
        """The same while an attack goes on; CalledProcessError if the broker doesn't answer."""
        number = list(ATTACKS).index(attack)
        command = [sys.executable, "-m", "bench.tls_attacker", self.secured, str(self.ca)]
        idle_mb = resident_mb(self.broker.pid)
        start_peak(self.broker.pid)
        attacker = subprocess.Popen(
            [*command, f"127.0.1.{number + 1}", attack], stdout=subprocess.PIPE, text=True
        )
        os.setpriority(os.PRIO_PROCESS, attacker.pid, ELSEWHERE)
        try:
            assert attacker.stdout is not None
            if attacker.stdout.readline() != "attacking\n":
                return NOT_POSSIBLE
            waits = self.neighbors(seconds)
        finally:
            attacker.terminate()
            steps = attacker.communicate(timeout=STARTS_S)[0]
        more_mb = max(0.0, peak_mb(self.broker.pid) - idle_mb)
        return waits._replace(rate=int(steps) / seconds, more_mb=more_mb)


def subject(name: str, directory: Path) -> Subject:
    """A broker that isn't started yet."""
    secured = f"127.0.0.1:{free_port()}"
    settings = settings_of(directory) | SETTINGS
    listener = f"SASL_SSL://{secured}"
    if name == KAFKA:
        return Subject(kafka_of(directory, listener, settings), secured, directory / "ca.pem")
    return Subject(kwire_of(directory, listener, settings), secured, directory / "ca.pem")


def measured(
    one: Subject, attacks: list[str], seconds: float, warm_up_s: float
) -> Iterator[tuple[str, Waits]]:
    """Measure the neighbors alone, then beside each attack."""
    create_users(one.broker.bootstrap.split(",")[0])  # whose logins by SCRAM go on to their end
    one.neighbors(warm_up_s)
    yield ALONE, one.neighbors(seconds)
    with busy_processors():
        yield CONTROL, one.neighbors(seconds)
    for attack in attacks:
        try:
            waits = one.beside(attack, seconds)
        except (subprocess.SubprocessError, OSError):
            one.broker.stop()
            one.broker.start()
            waits = NO_ANSWER
        yield attack, waits


def cells_of(waits: Waits) -> list[str]:
    """The cells of one attack and broker, as ``HEADS`` names them."""
    if not math.isfinite(waits.p99_ms):
        said = "not possible" if math.isnan(waits.p99_ms) else "no answer"
        return [said, *["-"] * (len(HEADS) - 1)]
    login = "refused" if math.isinf(waits.login_ms) else f"{waits.login_ms:.0f}"
    return [
        f"{waits.p50_ms:.2f}",
        f"{waits.p99_ms:.2f}",
        f"{waits.longest_ms:.0f}",
        login,
        f"{waits.rate:,.0f}",
        f"{waits.more_mb:.0f}",
    ]


def rows_of(results: Results) -> list[list[str]]:
    """The head of the table, and a row for each attack."""
    names = list(results[ALONE])
    heads = [f"{TITLES[name]}: {HEADS[0]}" for name in names]
    rows = [["what the hostile client does"]]
    for head in heads:
        rows[0] += [head, *HEADS[1:]]
    for attack, by_broker in results.items():
        row = [attack]
        for name in names:
            row += cells_of(by_broker[name])
        rows.append(row)
    return rows


def summary(results: Results) -> str:
    """How many attacks are within the aims, for each broker."""
    lines = []
    for name, alone in results[ALONE].items():
        beside = results[CONTROL][name]
        attacks = (row[name] for attack, row in results.items() if attack not in (ALONE, CONTROL))
        waits = [one for one in attacks if not math.isnan(one.p99_ms)]
        calm = sum(one.p99_ms <= MOST_TIMES * alone.p99_ms for one in waits)
        fair = sum(one.p99_ms <= MOST_TIMES * beside.p99_ms for one in waits)
        short = sum(one.longest_ms <= MOST_MS for one in waits)
        lines.append(
            f"- {TITLES[name]}: p99 at most {MOST_TIMES:g} x that without an attack in {calm} of"
            f" {len(waits)} attacks ({fair}: at most {MOST_TIMES:g} x that beside two other"
            f" programs), no wait of producer and consumer above {MOST_MS:g} ms in {short}."
        )
    return "\n".join(lines)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="bench.hostile_tls", description="hostile TLS clients")
    parser.add_argument("--only", metavar="TEXT", default="", help="only attacks with TEXT in them")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of each attack")
    parser.add_argument("--publish", action="store_true", help="write docs/PERFORMANCE.md")
    options = parser.parse_args(arguments)
    options.attacks = [name for name in ATTACKS if options.only in name]
    if not options.attacks:
        parser.error(f"no attack's name has {options.only}; the attacks are {', '.join(ATTACKS)}")
    if options.publish and options.only:
        parser.error("--publish needs the whole table: leave out --only")
    return options


def main() -> None:
    """Measure, and show or publish the table."""
    options = options_of()
    console = Console(width=160)
    names = [KWIRE]
    why = missing() if os.environ.get("KAFKA") != "no" else "KAFKA=no"
    if not why:
        names.append(KAFKA)
    results: Results = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-hostile-tls-") as directory,
        Progress(console=console, transient=True) as progress,
    ):
        for name in names:
            task = progress.add_task(TITLES[name], total=len(options.attacks) + 2)
            one = subject(name, Path(directory) / name)
            one.broker.start()
            try:
                warm_up_s = WARM_UP_S.get(name, 1.0)
                for attack, waits in measured(one, options.attacks, options.seconds, warm_up_s):
                    results.setdefault(attack, {})[name] = waits
                    progress.advance(task)
            finally:
                one.broker.stop()
    head, *rows = rows_of(results)
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(summary(results), highlight=False)
    if why:
        console.print(f"Apache Kafka is not measured: {why}")
    if options.publish:
        publish_part(f"{markdown_table([head, *rows])}\n\n{summary(results)}", BEGIN, END)


if __name__ == "__main__":
    main()
