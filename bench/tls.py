"""``make bench-tls``: produce, fetch and handshakes over TLS 1.3, kwire and Apache Kafka in turns.

Both brokers run all the time, have a certificate of the same kind (P-256) and the same client, one
process for a stream and two for handshakes. In each round each load is measured on one broker and
at once on the other, the first of them in turns. A row has the median of the rounds, and the
broker's CPU time for a gigabyte or for a thousand handshakes. KAFKA=no measures only kwire;
``--publish`` writes docs/PERFORMANCE.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rich.console import Console
from rich.table import Table

from bench.apache_kafka import missing
from bench.publish import markdown_table, publish_part
from bench.usage import cpu_seconds
from compat_tests.apache_kafka import ApacheKafka
from kwire.testing.process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.ports import free_port

KINDS = ("produce", "fetch", "handshakes")
CLIENTS = {"produce": 1, "fetch": 1, "handshakes": 2}
BEGIN = "<!-- tls: made by `make bench-tls ARGS=--publish` -->\n"
END = "<!-- end of tls -->\n"
UNITS = {"produce": "MB/s", "fetch": "MB/s", "handshakes": "1/s"}


class Measured(NamedTuple):
    """How fast one kind of load was, and what it cost the broker."""

    rate: float
    cpu_s: float


Found: TypeAlias = dict[str, dict[str, list[Measured]]]
"""What was measured, by broker and kind of load."""


class Subject(NamedTuple):
    """A running broker with TLS."""

    name: str
    port: int
    pid: int
    ca: Path

    def measure(self, kind: str, seconds: float) -> Measured:
        """Let clients run for some seconds."""
        command = [sys.executable, "-m", "bench.tls_load", kind, str(self.port), str(self.ca)]
        before_s = cpu_seconds(self.pid)
        clients = [
            subprocess.Popen([*command, str(seconds)], stdout=subprocess.PIPE, text=True)
            for _ in range(CLIENTS[kind])
        ]
        found = [json.loads(client.communicate()[0]) for client in clients]
        used_s = cpu_seconds(self.pid) - before_s
        done = sum(one.get("mb", one.get("count")) for one in found)
        rate = sum(one.get("mb", one.get("count")) / one["seconds"] for one in found)
        return Measured(rate, used_s / done * 1000)


def settings_of(directory: Path) -> dict[str, str]:
    """Settings of a broker with a new certificate; the CA's is ``ca.pem``."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = Authority()
    (directory / "ca.pem").write_text(authority.certificate_pem)
    path = authority.sign("server").write_pem(directory / "server.pem")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path),
        "log.retention.bytes": "2000000000",
        "log.segment.bytes": "200000000",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "100",
    }


def kwire_of(directory: Path, listener: str, settings: Mapping[str, str]) -> BrokerProcess:
    """A kwire with a further listener, ``PROTOCOL://host:port``; not started yet."""
    return BrokerProcess(directory / "data", settings, options=["--listen", listener])


def kafka_of(directory: Path, listener: str, settings: Mapping[str, str]) -> ApacheKafka:
    """An Apache Kafka with a further listener; not started yet."""
    broker = ApacheKafka(directory / "data")
    listeners = f"PLAINTEXT://{broker.bootstrap},{listener}"
    protocols = ["PLAINTEXT", listener.partition(":")[0]]
    broker.settings = {
        **settings,
        "listeners": f"{listeners},CONTROLLER://{broker.controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(
            [f"{name}:{name}" for name in protocols] + ["CONTROLLER:PLAINTEXT"]
        ),
    }
    return broker


@contextmanager
def kwire(directory: Path) -> Iterator[Subject]:
    """A kwire."""
    port = free_port()
    settings = settings_of(directory)
    with kwire_of(directory, f"SSL://127.0.0.1:{port}", settings) as broker:
        yield Subject("kwire", port, broker.pid, directory / "ca.pem")


@contextmanager
def kafka(directory: Path) -> Iterator[Subject]:
    """An Apache Kafka."""
    port = free_port()
    with kafka_of(directory, f"SSL://127.0.0.1:{port}", settings_of(directory)) as broker:
        yield Subject("Apache Kafka", port, broker.pid, directory / "ca.pem")


def rows_of(found: Found) -> list[list[str]]:
    """The medians: the head of the table, and a row for each kind of load."""
    rows = [["load", "unit", *(f"{name} (broker CPU s)" for name in found), "ratio"]]
    for kind in KINDS:
        rates, cells = [], []
        for name in found:
            runs = found[name][kind]
            rates.append(statistics.median(run.rate for run in runs))
            cpu_s = statistics.median(run.cpu_s for run in runs)
            cells.append(f"{rates[-1]:,.0f} ({cpu_s:.2f} per 1000)")
        ratio = f"{rates[0] / rates[1]:.2f}" if len(rates) > 1 else ""
        rows.append([kind, UNITS[kind], *cells, ratio])
    return rows


def table_of(found: Found) -> Table:
    """The medians, for the terminal."""
    head, *rows = rows_of(found)
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    return table


def part(found: Found, rounds: int, seconds: float) -> str:
    """The generated part of docs/PERFORMANCE.md."""
    lines = markdown_table(rows_of(found))
    return (
        f"{lines}\n\nMedians of {rounds} rounds of {seconds:g} s; the bar is Apache Kafka's own "
        "TLS 1.3 (a ratio of 1)."
    )


def in_turns(subjects: Sequence[Subject], rounds: int, seconds: float) -> Found:
    """Each load on one broker after the other, in each round; the first load of all warms up."""
    found: Found = {one.name: {kind: [] for kind in KINDS} for one in subjects}
    for number in range(-1, rounds):
        for kind in KINDS:
            for one in subjects[:: -1 if number % 2 else 1]:
                measured = one.measure(kind, seconds)
                if number >= 0:
                    found[one.name][kind].append(measured)
    return found


def main() -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench.tls", description="measure TLS 1.3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--publish", action="store_true", help="write docs/PERFORMANCE.md")
    options = parser.parse_args()
    console = Console(width=120)
    why = missing() if os.environ.get("KAFKA") != "no" else "KAFKA=no"
    if options.publish and why:
        parser.error(f"--publish needs Apache Kafka: {why}")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        subjects = [stack.enter_context(kwire(Path(name) / "kwire"))]
        if not why:
            subjects.append(stack.enter_context(kafka(Path(name) / "kafka")))
        found = in_turns(subjects, options.rounds, options.seconds)
    console.print(table_of(found))
    if why:
        console.print(f"Apache Kafka is not measured: {why}")
    if options.publish:
        publish_part(part(found, options.rounds, options.seconds), BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
