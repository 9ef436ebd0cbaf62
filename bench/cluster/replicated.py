"""Three replicas: kwire on three etcds against three Apache Kafkas, with bars.

Rules:

- Topics have one partition and three replicas, of which two have to be in sync; ``acks=all``.
- Both clusters run all the time, and each row is measured on both in turn, round after round.
  Ratios are of the medians.
- Both systems have their defaults for sessions: no fault is measured here, and each heartbeat costs
  processor time.
- Processor time and memory are those of all brokers; kwire's memory includes its etcds.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.bars import Bar, at_least, at_most, ratio
from bench.cluster.kills import create_topic
from bench.lent_memory import touch
from bench.load import Generator, frame_of, new_generator, run_load
from bench.reliability.clusters import KAFKA, KWIRE, REPLICAS, Trial, kafka, kwire
from bench.rows.common import PRODUCE_VERSION, delete_topic, next_offset, produce_request
from bench.rows.fetch import long_polls_us
from bench.usage import MB, cpu_seconds, proportional_mb

WARM_UP_S = 5.0
MOST_BYTES_A_SECOND = 1_000_000_000


class Kind(NamedTuple):
    """A load: records in a batch, their size, requests in flight, and the bar of its rate."""

    name: str
    records: int
    size_bytes: int
    in_flight: int
    bar: float

    @property
    def is_bulk(self) -> bool:
        """Whether its rate is in megabytes per second."""
        return self.records > 1


KINDS = (
    Kind("one in flight", 1, 100, 1, 1),
    Kind("ten in flight", 1, 100, 10, 3),
    Kind("batches of 100 x 100 B", 100, 100, 5, 2),
    Kind("batches of 1000 x 1000 B", 1000, 1000, 5, 1.2),
)
LONG_POLL = "produce to long-polling fetch: p50"
MEMORY = "memory of all processes after the load"
CPU = "processor time of all brokers per GB"


class Row(NamedTuple):
    """A row of the table: the numbers of both systems, and the bar of their ratio."""

    name: str
    unit: str
    numbers: dict[str, list[float]]
    bar: Bar

    def value(self, system: str) -> float | None:
        """The median of a system, None if it wasn't measured."""
        values = self.numbers.get(system)
        return median(values) if values else None

    @property
    def is_met(self) -> bool:
        """Whether the bar is reached; also where there is nothing to compare with."""
        found = self.bar.met(self.value(KWIRE) or 0.0, self.value(KAFKA))
        return found is not False


class Measured:
    """The clusters that run, and the numbers so far."""

    def __init__(self, generator: Generator, seconds: float) -> None:
        self.generator = generator
        self.seconds = seconds
        self.rows: dict[str, Row] = {}
        self._topics = 0

    def note(self, system: str, name: str, unit: str, bar: Bar, value: float) -> None:
        """Keep a number of one round."""
        row = self.rows.setdefault(name, Row(name, unit, {}, bar))
        row.numbers.setdefault(system, []).append(value)

    def topic(self, trial: Trial) -> tuple[str, str]:
        """A new topic with three replicas in sync, and the address of its leader."""
        self._topics += 1
        name = f"replicated-{self._topics}"
        create_topic(trial.bootstrap, name, 1, REPLICAS, {"min.insync.replicas": "2"})
        trial.wait_in_sync(name)
        return name, trial.nodes[trial.rows(name)[0].leader].bootstrap

    def produce(self, trial: Trial, kind: Kind, seconds: float) -> None:
        """One load on one cluster."""
        topic, leader = self.topic(trial)
        request = produce_request(topic, kind.records, kind.size_bytes)
        first = next_offset(leader, request)
        if kind.is_bulk:
            touch(int(seconds * MOST_BYTES_A_SECOND))
        os.sync()
        before_s = cpu_s(trial)
        frame = frame_of(request, PRODUCE_VERSION)
        load = run_load(self.generator, leader, frame, 1, kind.in_flight, seconds)
        used_s = cpu_s(trial) - before_s
        appended = next_offset(leader, request) - first
        assert appended == (load.requests + 1) * kind.records, "an answer isn't a record"
        delete_topic(leader, topic)
        if seconds < self.seconds:
            return
        gigabytes = load.requests * kind.records * kind.size_bytes / (1000 * MB)
        rate = gigabytes * 1000 / load.seconds if kind.is_bulk else load.requests_per_s
        unit = "MB/s" if kind.is_bulk else "req/s"
        self.note(trial.name, kind.name, unit, at_least(kind.bar), rate)
        if kind.is_bulk:
            name = f"{kind.name}: {CPU}"
            self.note(trial.name, name, "s", at_most(0.6), used_s / gigabytes)

    def long_poll(self, trial: Trial) -> None:
        """From sending a record until a fetch that waits for it returns it."""
        topic, leader = self.topic(trial)
        times = long_polls_us(leader, topic)
        delete_topic(leader, topic)
        self.note(trial.name, LONG_POLL, "µs", at_most(0.7), times[len(times) // 2])

    def memory(self, trial: Trial) -> None:
        """What all processes of a cluster hold."""
        pids = [node.pid for node in trial.nodes.values()]
        pids += [member.pid for member in trial.etcd.members] if trial.etcd else []
        self.note(trial.name, MEMORY, "MB", at_most(0.25), sum(map(proportional_mb, pids)))


def cpu_s(trial: Trial) -> float:
    """The processor time that all brokers have used."""
    return sum(cpu_seconds(node.pid) for node in trial.nodes.values())


def measure(
    directory: Path,
    *,
    seconds: float,
    rounds: int,
    with_kafka: bool,
    say: Callable[[str], None],
) -> Iterator[Row]:
    """All rows, with ``rounds`` numbers for each system."""
    directory.mkdir(parents=True)
    measured = Measured(new_generator(directory), seconds)
    own = partial(kwire, session={})
    makers = {KWIRE: own, KAFKA: kafka} if with_kafka else {KWIRE: own}
    with ExitStack() as stack:
        trials = [stack.enter_context(make(directory / name)) for name, make in makers.items()]
        for trial in trials:
            for kind in KINDS:
                measured.produce(trial, kind, min(WARM_UP_S, seconds * 0.9))
        for number in range(rounds):
            for kind in KINDS:
                for trial in trials if number % 2 else trials[::-1]:
                    measured.produce(trial, kind, seconds)
                    time.sleep(0.2)
            for trial in trials:
                measured.long_poll(trial)
            say(f"round {number + 1} of {rounds}")
        for trial in trials:
            measured.memory(trial)
    yield from measured.rows.values()


def shown(value: float | None) -> str:
    """A number of the table."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        f"| three replicas | unit | {KWIRE} x 3 | {KAFKA} x 3 | ratio | bar | |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        own, other = row.value(KWIRE), row.value(KAFKA)
        found = ratio(own, other)
        verdict = "" if found is None else ("met" if row.is_met else "not met")
        cells = [row.name, row.unit, shown(own), shown(other), shown(found), str(row.bar), verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
