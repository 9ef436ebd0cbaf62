"""The bars: what kwire has to reach in each row, and whether it does.

A bar limits the ratio kwire / Apache Kafka of the medians of one run, or kwire's own number. The
limit is a minimum for rows where more is better, else a maximum. The bars below were set before
kwire was written, from what Apache Kafka and a prototype could do. A row without such a bar has to
reach a ratio of 1. That is a bar of our own, which tables show in parentheses. The comparison uses
the medians as measured, not the rounded numbers of the table.
"""

from typing import NamedTuple

from bench.rows.common import Row


class Bar(NamedTuple):
    """A limit; ``absolute`` limits kwire's own number, ``own`` is a bar that we have added."""

    limit: float
    at_least: bool
    absolute: bool = False
    own: bool = False

    def __str__(self) -> str:
        """The bar as text for the table."""
        text = f"{'≥' if self.at_least else '≤'} {self.limit:g}"
        return f"({text})" if self.own else text

    def met(self, kwire: float, kafka: float | None) -> bool | None:
        """Whether the bar is reached; None if there is nothing to compare with."""
        value = kwire if self.absolute else ratio(kwire, kafka)
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def missed_by(self, kwire: float, kafka: float | None) -> float:
        """By which part of the limit the bar is missed; 0 if it is reached or can't be compared."""
        value = kwire if self.absolute else ratio(kwire, kafka)
        if value is None:
            return 0.0
        return max(0.0, 1 - value / self.limit if self.at_least else value / self.limit - 1)


def ratio(kwire: float | None, kafka: float | None) -> float | None:
    """kwire / Kafka; None if one of them is missing or not above 0."""
    if kwire is None or kafka is None or kwire <= 0 or kafka <= 0:
        return None
    return kwire / kafka


def advantage(row: Row, kwire: float | None, kafka: float | None) -> float | None:
    """How many times better kwire is than Kafka, for either kind of row; above 1 kwire leads."""
    found = ratio(kwire, kafka)
    return found if found is None or row.more_is_better else 1 / found


def at_least(limit: float) -> Bar:
    """A bar for rows where more is better: the least ratio kwire / Kafka."""
    return Bar(limit, True)


def at_most(limit: float) -> Bar:
    """A bar for rows where less is better: the largest ratio kwire / Kafka."""
    return Bar(limit, False)


BARS: dict[str, Bar] = {
    "start to first acknowledged record": at_most(0.05),
    "memory when idle": at_most(0.1),
    "memory after the load": at_most(0.05),
    "memory per idle connection": Bar(10, False, absolute=True),
    "1 connection, 1 in flight": at_least(1.7),
    "1 connection, 1 in flight: p99": at_most(0.7),
    "1 connection, 10 in flight": at_least(4),
    "8 connections, 1 in flight": at_least(1.2),
    "64 connections, 1 in flight": at_least(1),
    "batches of 100 x 100 B": at_least(3),
    "batches of 1000 x 1000 B": at_least(2),
    "fetch, 1 MB at a time": at_least(1),
    "fetch, 10 MB at a time": at_least(1),
    "produce to long-polling fetch: p50": at_most(0.5),
    "produce to long-polling fetch: p99": at_most(0.5),
    "1 connection, 1 in flight: CPU per million": at_most(0.4),
    "1 connection, 10 in flight: CPU per million": at_most(0.3),
    "batches of 100 x 100 B: CPU per GB": at_most(0.5),
    "batches of 1000 x 1000 B: CPU per GB": at_most(0.5),
    "fetch, 1 MB at a time: CPU per GB": at_most(1),
    "fetch, 10 MB at a time: CPU per GB": at_most(1),
    "JoinGroup to SyncGroup done": at_most(0.3),
    "10 classic consumers, until all hold partitions": at_most(0.5),
    "10 consumers (KIP-848) share 30 partitions": at_most(0.3),
    "1 share consumer, explicit acknowledgement": at_least(1.5),
    "4 share consumers, explicit acknowledgement": at_least(1.5),
    "16 share consumers, explicit acknowledgement": at_least(1.5),
    "produce to delivery in a share group: p99": at_most(0.7),
    "memory of 100,000 records in flight": Bar(30, False, absolute=True),
    "a lock ends: until another member has the record": Bar(200, False, absolute=True),
    "librdkafka producer, 100 B": at_least(1.1),
    "librdkafka producer, 1 KB": at_least(1.5),
    "librdkafka producer, 1 KB, idempotent": at_least(1.3),
    "librdkafka consumer, 100 B": at_least(1),
}
"""The rows with a bar set in advance; these are also the rows of the README and of the chart."""

TWICE: dict[str, Bar] = {
    f"beside compaction of 1 GB: {label}, times that without": Bar(2, False, absolute=True)
    for label in ("p50", "p99")
}
"""Set in advance too, for kwire alone: compaction may at most double a producer's latency."""


def bar_of(row: Row) -> Bar:
    """The row's bar."""
    return BARS.get(row.name) or TWICE.get(row.name) or Bar(1, row.more_is_better, own=True)
