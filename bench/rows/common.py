"""The common parts of rows: the broker, shared loads, topics and requests."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.brokers import Maker, MeasuredBroker
from bench.lent_memory import touch
from bench.load import Generator, Load, ask, frame_of, run_load
from bench.usage import MB, cpu_seconds
from kwire.protocol.codec import decoder
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.record.records import BatchBuilder

CREATE_VERSION = 5
PRODUCE_VERSION = 11
TOPIC_ALREADY_EXISTS = 36
TIME_LIMIT_S = 30
MOST_BYTES_A_SECOND = 2_000_000_000
"""More than any broker has written on machines so far."""
GENERATOR_IS_LIMIT = 0.9
"""Above this share of one core the generator, not the broker, may have been the limit."""


class NotHere(Exception):
    """A row can't be measured on this machine; the text is one line that says what is missing."""


class Measured(NamedTuple):
    """One run of the generator, and the CPU seconds that the broker used during it."""

    load: Load
    broker_cpu_s: float


@dataclass(slots=True)
class Running:
    """A running broker, and what its rows share.

    ``make`` creates another broker of the same kind. ``seconds`` is the length of a row's load,
    ``mix_seconds`` that of the mix of clients, ``spark_mb`` the megabytes that Spark reads. Rows of
    the same load share one run of it: ``runs``, ``times`` in microseconds, ``results`` of other
    programs. ``limited`` collects the loads in which the generator was the limit, ``notes`` other
    numbers that a load has measured.
    """

    broker: MeasuredBroker
    make: Maker
    generator: Generator
    seconds: float
    mix_seconds: float = 60.0
    spark_mb: int = 1000
    runs: dict[str, Measured] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)
    times: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def shorter(self, seconds: float) -> "Running":
        """The same broker with another length of loads, and without measurements."""
        return Running(self.broker, self.make, self.generator, seconds)

    def forget(self) -> None:
        """Drop the shared measurements, because a new round starts."""
        for measured_once in (self.runs, self.times, self.notes, self.results):
            measured_once.clear()


class Row(NamedTuple):
    """One row: its name, its unit, whether more is better, and the function that measures it.

    ``load`` names the load that the row shares with others, "" for none.
    """

    name: str
    unit: str
    more_is_better: bool
    measure: Callable[[Running], float]
    load: str = ""


DELETED: dict[str, list[str]] = {}
"""Deleted topics by the broker's address, whose files may still exist."""


def load_codecs() -> None:
    """Load the codecs that ``create_topic`` and ``next_offset`` need at their first call."""
    topic = CreatableTopic(configs=[CreatableTopicConfig()])
    for request, version in (
        (CreateTopicsRequest(topics=[topic]), CREATE_VERSION),
        (produce_request("", 1, 0), PRODUCE_VERSION),
    ):
        frame_of(request, version)
        decoder(message_classes(request.API_KEY)[1], version)


def create_topic(
    bootstrap: str, name: str, partitions: int = 1, configs: dict[str, str] | None = None
) -> str:
    """Make sure that a topic exists; a broker that has just started may refuse it for a moment."""
    settings = (configs or {}).items()
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings],
    )
    time_limit = time.monotonic() + TIME_LIMIT_S
    while True:
        [answer] = ask(
            bootstrap, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CREATE_VERSION
        ).topics
        if answer.error_code in (0, TOPIC_ALREADY_EXISTS):
            return name
        if time.monotonic() > time_limit:
            raise RuntimeError(f"{name} can't be created: error {answer.error_code}")


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic; the broker removes its files a moment later."""
    DELETED.setdefault(bootstrap, []).append(name)
    ask(bootstrap, DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)


def next_offset(bootstrap: str, request: ProduceRequest) -> int:
    """Produce once, to a topic that may be new; returns the batch's first offset."""
    time_limit = time.monotonic() + TIME_LIMIT_S
    while True:
        answer = ask(bootstrap, request, PRODUCE_VERSION).responses[0].partition_responses[0]
        if answer.error_code == 0:
            return int(answer.base_offset)
        if time.monotonic() > time_limit:
            raise RuntimeError(f"the broker refuses the batch with error {answer.error_code}")


def batch(records: int, size_bytes: int) -> bytes:
    """A batch of records with values of ``size_bytes``."""
    builder = BatchBuilder()
    now_ms = int(time.time() * 1000)
    for _ in range(records):
        builder.add(now_ms, None, bytes(size_bytes))
    return bytes(builder.build())


def produce_request(
    topic: str, records: int, size_bytes: int, partition: int = 0
) -> ProduceRequest:
    """A produce request with acks=all."""
    data = PartitionProduceData(index=partition, records=batch(records, size_bytes))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def ready_for_much_data(running: Running) -> None:
    """Prepare memory for the page cache before a load that writes as fast as the broker can."""
    touch(int(running.seconds * MOST_BYTES_A_SECOND))


def measured(
    running: Running, name: str, frame: bytes, connections: int, in_flight: int
) -> Measured:
    """Run the generator; stores the broker's CPU time and whether the generator was the limit."""
    before = cpu_seconds(running.broker.pid)
    bootstrap = running.broker.bootstrap
    load = run_load(running.generator, bootstrap, frame, connections, in_flight, running.seconds)
    run = Measured(load, cpu_seconds(running.broker.pid) - before)
    if load.generator_share > GENERATOR_IS_LIMIT:
        running.limited.add(name)
    running.runs[name] = run
    return run


def attribute_of_load(
    run: Callable[[Running], Measured], attribute: str
) -> Callable[[Running], float]:
    """A row's function that returns one number of a load."""
    return lambda running: float(getattr(run(running).load, attribute))


def bytes_rows(
    name: str, run: Callable[[Running], Measured], size: Callable[[Load], int]
) -> list[Row]:
    """Rows for the megabytes per second, and the broker's CPU seconds per gigabyte."""

    def rate(running: Running) -> float:
        load = run(running).load
        return size(load) / load.seconds / MB

    def cpu(running: Running) -> float:
        return run(running).broker_cpu_s / size(run(running).load) * 1000 * MB

    return [
        Row(name, "MB/s", True, rate, name),
        Row(f"{name}: CPU per GB", "s", False, cpu, name),
    ]
