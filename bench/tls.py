"""``make bench-tls``: produce, fetch and handshakes over TLS 1.3, kwire and Apache Kafka in turns.

Both brokers have the same certificate (P-256) and the same client, one process for a stream and two
for handshakes. A row has the median of the rounds, and the broker's CPU time for a gigabyte or
for a thousand handshakes. KAFKA=no measures only kwire.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.apache_kafka import missing
from bench.usage import cpu_seconds
from compat_tests.apache_kafka import ApacheKafka
from kwire.testing.certificates import Authority
from kwire.testing.ports import free_port
from kwire.testing.process import BrokerProcess

KINDS = ("produce", "fetch", "handshakes")
CLIENTS = {"produce": 1, "fetch": 1, "handshakes": 2}
UNITS = {"produce": "MB/s", "fetch": "MB/s", "handshakes": "1/s"}


class Measured(NamedTuple):
    """How fast one kind of load was, and what it cost the broker."""

    rate: float
    cpu_s: float


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


def _settings(directory: Path, port: int) -> dict[str, str]:
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


@contextmanager
def kwire(directory: Path, package_parent: Path | None) -> Iterator[Subject]:
    """A kwire."""
    port = free_port()
    how = {} if package_parent is None else {"package_parent": package_parent}
    options = ["--listen", f"SSL://127.0.0.1:{port}"]
    settings = _settings(directory, port)
    with BrokerProcess(directory / "data", settings, options=options, **how) as broker:
        yield Subject("kwire", port, broker.pid, directory / "ca.pem")


@contextmanager
def kafka(directory: Path) -> Iterator[Subject]:
    """An Apache Kafka."""
    port = free_port()
    broker = ApacheKafka(directory / "data")
    listeners = f"PLAINTEXT://{broker.bootstrap},SSL://127.0.0.1:{port}"
    broker.settings = {
        **_settings(directory, port),
        "listeners": f"{listeners},CONTROLLER://{broker.controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
    }
    with broker:
        yield Subject("Apache Kafka", port, broker.pid, directory / "ca.pem")


def table_of(found: dict[str, dict[str, list[Measured]]]) -> Table:
    """The medians."""
    table = Table("load", "unit", *(f"{name}, broker CPU s" for name in found), "ratio")
    for kind in KINDS:
        rates, cells = [], []
        for name in found:
            runs = found[name][kind]
            rates.append(statistics.median(run.rate for run in runs))
            cpu_s = statistics.median(run.cpu_s for run in runs)
            cells.append(f"{rates[-1]:,.0f}  ({cpu_s:.2f} per 1000)")
        ratio = f"{rates[0] / rates[1]:.2f}" if len(rates) > 1 else ""
        table.add_row(kind, UNITS[kind], *cells, ratio)
    return table


def main() -> int:
    """Measure in turns; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench.tls", description="measure TLS 1.3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--package", type=Path, help="where the kwire to measure is imported from")
    options = parser.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as name:
        makers: list[Callable[[Path], object]] = [lambda path: kwire(path, options.package)]
        why = missing() if os.environ.get("KAFKA") != "no" else "KAFKA=no"
        makers += [] if why else [kafka]
        found: dict[str, dict[str, list[Measured]]] = {}
        for place, make in enumerate(makers):
            with make(Path(name) / str(place)) as subject:  # type: ignore[attr-defined]
                runs = found.setdefault(subject.name, {kind: [] for kind in KINDS})
                for kind in KINDS:
                    subject.measure(kind, options.seconds)  # warms up
                    runs[kind] = [
                        subject.measure(kind, options.seconds) for _ in range(options.rounds)
                    ]
        console.print(table_of(found))
        if why:
            console.print(f"Apache Kafka is not measured: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
