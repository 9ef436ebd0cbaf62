"""``--workers 2`` against one worker: requests by connections, and librdkafka's producers.

Each worker leads one topic of one partition. Half of the connections go to each worker, as those of
clients that know the leaders do. The load takes a part of the same processors. So beside each ratio
stands the one that the processors leave room for: if the load and two workers need x and y seconds
for a request, P processors can't serve more than P / (x + y) in a second, and two workers no more
than 2 / y. That is compared with what one worker has served. And requests are counted for each
second of processor time that all processes of the broker have used, the supervisor's too: with a
processor for each worker and others for the load, two workers do twice as much in a second as one
second of processor time does.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from bench.brokers import SETTINGS, kwire_maker
from bench.cluster.measure import Number
from bench.load import Generator, Load, ask, frame_of, new_generator, run_load
from bench.rows.common import (
    PRODUCE_VERSION,
    Running,
    next_offset,
    produce_request,
    ready_for_much_data,
)
from bench.rows.librdkafka import PRODUCER, library, program
from bench.usage import cpu_seconds, proportional_mb
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until

CONNECTIONS = (8, 64, 512)
RECORD_BYTES = 100
MANY_RECORDS = {**PRODUCER, "queue.buffering.max.messages": "1000000"}
"""The producers' settings: those of bench/rows for small records, with room for a million."""

RATE_BAR, PRODUCER_BAR, MEMORY_BAR_MB = 1.6, 1.5, 30
WARM_UP_S = 1.0


class Rate(NamedTuple):
    """What was done in a second, and the processor time of broker and load for each, in seconds."""

    per_s: float
    broker_s: float
    load_s: float

    def most_per_s(self, processors: int, workers: int) -> float:
        """What could be done in a second at these costs, with each processor busy all the time."""
        return min(processors / (self.broker_s + self.load_s), workers / self.broker_s)


class Workers:
    """A running kwire with so many workers, and a topic for each half of the load."""

    def __init__(self, directory: Path, count: int) -> None:
        options = ("--workers", str(count)) if count > 1 else ()
        self.broker = BrokerProcess(directory, SETTINGS, options=options)
        self._count = count
        self.targets: list[tuple[str, str]] = []
        """The address of the leader of each topic, and the topic."""

    def __enter__(self) -> "Workers":
        self.broker.start()
        first = self.broker.bootstrap.split(",")[0]

        def nodes() -> dict[int, str]:
            found = ask(first, MetadataRequest(topics=[]), 12).brokers
            return {node.node_id: f"{node.host}:{node.port}" for node in found}

        wait_until(lambda: len(nodes()) == self._count, what="all workers")
        known = sorted(nodes().items())
        for number in range(2):
            node, address = known[number % self._count]
            placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=[node])]
            topic = CreatableTopic(
                name=f"half-{number}", num_partitions=-1, replication_factor=-1, assignments=placed
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            [created] = ask(first, request, 5).topics
            assert created.error_code == 0, created.error_message
            next_offset(address, produce_request(topic.name, 1, 1))
            self.targets.append((address, topic.name))
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()

    def memory_mb(self) -> float:
        """The memory of all processes of the broker; pages that they share count once."""
        return sum(map(proportional_mb, family(self.broker.pid)))

    def cpu_s(self) -> float:
        """The processor time that all processes of the broker have used."""
        return sum(map(cpu_seconds, family(self.broker.pid)))


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for at in found:
        for task in Path(f"/proc/{at}/task").iterdir():
            children = (task / "children").read_text(encoding="utf-8")
            found += map(int, children.split())
    return found


def requests(workers: Workers, generators: list[Generator], count: int, seconds: float) -> Rate:
    """Produce requests with one small record each, over so many connections.

    Each worker has a generator of its own, so that none waits for what the other one is sent.
    """
    loads: list[Load] = []

    def run(generator: Generator, address: str, topic: str) -> None:
        frame = frame_of(produce_request(topic, 1, RECORD_BYTES), PRODUCE_VERSION)
        loads.append(run_load(generator, address, frame, count // 2, 1, seconds))

    before = workers.cpu_s()
    pairs = zip(generators, workers.targets, strict=True)
    threads = [Thread(target=run, args=(generator, *target)) for generator, target in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == len(threads), "a load has failed; its thread has said why"
    used_s = workers.cpu_s() - before
    done = sum(load.requests for load in loads)
    rate = sum(load.requests_per_s for load in loads)
    return Rate(rate, used_s / done, sum(load.cpu_s for load in loads) / done)


def producers(workers: Workers, client: Path, seconds: float) -> Rate:
    """Two of librdkafka's producers, each with a topic of its own."""
    settings = [f"{key}={value}" for key, value in MANY_RECORDS.items()]
    before, clients_before = workers.cpu_s(), _children_s()
    processes = [
        subprocess.Popen(
            [
                *(str(client), str(library()), address, topic, "produce", str(RECORD_BYTES)),
                *(str(seconds), "0", *settings),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for address, topic in workers.targets
    ]
    said = [json.loads(process.communicate()[0]) for process in processes]
    done = sum(one["records"] for one in said)
    rate = sum(one["records"] / one["seconds"] for one in said)
    clients_s = _children_s() - clients_before
    return Rate(rate, (workers.cpu_s() - before) / done, clients_s / done)


def _children_s() -> float:
    """The processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def numbers(directory: Path, seconds: float, rounds: int) -> Iterator[Number]:
    """All rows: medians of rounds, in each of which one worker and two have the same load."""
    generators = []
    for number in range(2):
        place = directory / f"load-{number}"
        place.mkdir(parents=True)
        generators.append(new_generator(place))
    found: dict[int, dict[str, list[Rate]]] = {1: {}, 2: {}}
    idle_mb: dict[int, float] = {}
    for count in (1, 2) * rounds:
        place = directory / f"workers-{count}"
        with Workers(place, count) as workers:
            idle_mb.setdefault(count, workers.memory_mb())
            for name, rate in _rates(workers, generators, seconds).items():
                found[count].setdefault(name, []).append(rate)
        shutil.rmtree(place)  # gigabytes in the page cache
    with Workers(directory / "workers-3", 3) as workers:
        idle_mb[3] = workers.memory_mb()
    added = idle_mb[2] - idle_mb[1]
    yield Number("memory that 2 workers and their supervisor add to 1 broker", added, "MB")
    each = idle_mb[2] / 2
    yield Number("memory of each of these 2, the supervisor's included", each, "MB", MEMORY_BAR_MB)
    further = idle_mb[3] - idle_mb[2]
    yield Number("memory that a further worker adds", further, "MB", MEMORY_BAR_MB)
    for name, rates in found[1].items():
        processors = len(os.sched_getaffinity(0))
        yield from compared(name, _median(rates), _median(found[2][name]), processors)


def _rates(workers: Workers, generators: list[Generator], seconds: float) -> dict[str, Rate]:
    """Each load once."""
    running = Running(workers.broker, kwire_maker(), generators[0], seconds)
    requests(workers, generators, CONNECTIONS[0], WARM_UP_S)
    rates = {
        f"{many} connections": requests(workers, generators, many, seconds) for many in CONNECTIONS
    }
    ready_for_much_data(running)
    rates["2 librdkafka producers"] = producers(workers, program(running), seconds)
    return rates


def _median(rates: list[Rate]) -> Rate:
    """The median of each number."""
    return Rate(*map(statistics.median, zip(*rates, strict=True)))


def compared(name: str, one: Rate, two: Rate, processors: int) -> Iterator[Number]:
    """The rows of one load. A bar that the processors leave no room for isn't judged."""
    of_clients = "librdkafka" in name
    unit, bar = ("records", PRODUCER_BAR) if of_clients else ("requests", RATE_BAR)
    for workers, rate in (("1 worker", one), ("2 workers", two)):
        yield Number(f"{name}, {workers}", rate.per_s, f"{unit}/s")
        per_cpu_s = 1 / rate.broker_s
        yield Number(f"{name}, {workers}, by processor time", per_cpu_s, f"{unit}/processor s")
    most = two.most_per_s(processors, 2) / one.per_s
    bar_here = bar if most >= bar else None
    yield Number(f"{name}, 2 workers / 1 worker", two.per_s / one.per_s, "x", bar_here, True)
    yield Number(f"{name}, the most that load and processors allow", most, "x")
    by_processors = 2 * one.broker_s / two.broker_s
    what = f"{name}, 2 workers / 1 worker, with a processor for each worker and others for the load"
    yield Number(what, by_processors, "x", bar, True)
