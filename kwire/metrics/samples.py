"""The values of a broker's metrics at one moment, as plain numbers and texts."""

from typing import NamedTuple

from kwire.broker.metrics_counters import Histogram


class Times(NamedTuple):
    """A copy of one or more ``Histogram``."""

    counts: tuple[int, ...]
    sum_us: int

    @classmethod
    def of(cls, *spreads: Histogram) -> "Times":
        """The sum of several spreads."""
        counts = tuple(map(sum, zip(*(spread.counts for spread in spreads), strict=True)))
        return cls(counts, sum(spread.sum_us for spread in spreads))


class Sample(NamedTuple):
    """One value of a metric of ``definitions``; a total over all topics has no labels."""

    name: str
    labels: tuple[str, ...]
    value: float | Times


class ClientSample(NamedTuple):
    """One value that a client has pushed, with names that are safe for Prometheus."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Samples(list[Sample]):
    """The values gathered so far; ``of_clients`` has the values that clients have pushed."""

    def __init__(self) -> None:
        super().__init__()
        self.of_clients: list[ClientSample] = []

    def put(self, name: str, value: float | Times, *labels: str) -> None:
        """Add a sample."""
        self.append(Sample(name, labels, value))
