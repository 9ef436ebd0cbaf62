"""``python -m bench.prices`` (``make prices``): whether a unit of work costs the same everywhere.

Handlers state the cost of their work in units and measure nothing (``kwire.budget.work``). If an
API states too little, its slices of the event loop are too long, and other clients wait. So this
measures the processor time of the event loop for the worst request of each API that one connection
can send, and divides it by the units that the request has spent. The APIs whose unit takes longest
come first. A unit takes about a microsecond; on another machine all of them take longer or shorter,
so each is also compared with the median.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.attacks import ATTACKS, Attack
from bench.counted import FILE_VARIABLE
from bench.load import connected, read_frame
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until

SECONDS = 0.3
ROUNDS = 3
FEW_UNITS = 1000
"""Smaller requests need no second slice; their cost is that of any request."""


class Price(NamedTuple):
    """The cost of one request: units, and the event loop's processor time in ms."""

    name: str
    units: float
    loop_ms: float

    @property
    def unit_us(self) -> float:
        """The processor time of a unit in µs."""
        return 1000 * self.loop_ms / self.units


class CountedBroker:
    """A broker whose units can be read."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "units"
        os.environ[FILE_VARIABLE] = str(self._file)
        prefix = (sys.executable, "-m", "bench.counted")
        self.process = BrokerProcess(directory / "data", prefix=prefix)

    def units(self) -> int:
        """The units that all requests have spent so far."""
        self._file.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR1)
        wait_until(self._file.exists)
        return int(self._file.read_text(encoding="utf-8"))

    def loop_s(self) -> float:
        """The processor time of the event loop's thread so far."""
        pid = self.process.pid
        spent = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()[0]
        return int(spent) / 1e9


def sent(bootstrap: str, frames: list[bytes], seconds: float) -> int:
    """Send requests one after the other for a while, at least one; returns how many."""
    end, count = time.perf_counter() + seconds, 0
    client = connected(bootstrap)
    try:
        for frame in cycle(frames):
            client.sendall(frame)
            try:
                read_frame(client)
            except ConnectionError:  # the answer would be larger than kwire.response.max.bytes
                client.close()
                client = connected(bootstrap)
            count += 1
            if time.perf_counter() > end:
                break
    finally:
        client.close()
    return count


def price_of(broker: CountedBroker, attack: Attack, seconds: float) -> Price:
    """The cheapest of some rounds, because others use the machine as well."""
    bootstrap = broker.process.bootstrap
    frames = attack.frames(bootstrap)
    rounds = []
    for _ in range(ROUNDS):
        units, loop_s = broker.units(), broker.loop_s()
        count = sent(bootstrap, frames, seconds)
        spent = (broker.units() - units) / count, 1000 * (broker.loop_s() - loop_s) / count
        rounds.append(Price(attack.name, *spent))
    return min(rounds, key=lambda price: price.loop_ms)


def prices(attacks: list[Attack], seconds: float) -> Iterator[Price]:
    """The prices of these attacks on one broker."""
    with tempfile.TemporaryDirectory(prefix="bench-prices-") as directory:
        broker = CountedBroker(Path(directory))
        broker.process.start()
        try:
            for attack in attacks:
                yield price_of(broker, attack, seconds)
        finally:
            broker.process.stop()


def table_of(found: list[Price]) -> Table:
    """The prices with the dearest unit first."""
    large = [price for price in found if price.units >= FEW_UNITS]
    usual_us = median(price.unit_us for price in large)
    table = Table(title="what a unit of work takes on the event loop")
    table.add_column("worst request")
    for head in ("units", "ms", "µs a unit", "x median"):
        table.add_column(head, justify="right")
    for price in sorted(large, key=lambda price: price.unit_us, reverse=True):
        unit_us = price.unit_us
        times = f"{unit_us / usual_us:.1f}"
        cells = f"{price.units:,.0f}", f"{price.loop_ms:,.0f}", f"{unit_us:.2f}", times
        table.add_row(price.name, *cells)
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.prices", description="what a unit of work takes")
    parser.add_argument("--only", metavar="TEXT", default="", help="only attacks with TEXT in them")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds of each round")
    options = parser.parse_args()
    attacks = [one for one in ATTACKS if one.connections == 1 and options.only in one.name]
    if not attacks:
        parser.error(f"no attack on one connection has {options.only!r} in its name")
    console = Console()
    found = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("kwire", total=len(attacks))
        for price in prices(attacks, options.seconds):
            found.append(price)
            progress.advance(task)
    console.print(table_of(found))


if __name__ == "__main__":
    main()
