"""Replicas move between the data directories of one broker, by Kafka's own tools, under load.

The broker is the tests' own: a kwire, or with ``KWIRE_CLUSTER=kafka`` an Apache Kafka.
"""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.apache_kafka import ApacheKafka
from compat_tests.clients import QUIET
from compat_tests.java_tools import run_tool
from compat_tests.reading import read_all
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
TOPIC = "moved"
MOVE_S = 60

Broker = BrokerProcess | ApacheKafka


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """The data directories; where ``logs`` is, ApacheKafka formats nothing anew."""
    return [tmp_path / "logs", tmp_path / "more"]


@pytest.fixture
def broker(tmp_path: Path, places: list[Path]) -> Iterator[Broker]:
    """A broker with two data directories."""
    directories = ",".join(map(str, places))
    if os.environ.get("KWIRE_CLUSTER") == "kafka":
        kafka = ApacheKafka(tmp_path, {"log.dirs": directories}).start()
        try:
            yield kafka
        finally:
            kafka.kill()
        return
    with BrokerProcess(directories) as kwire:
        yield kwire
        assert "bug in" not in kwire.log()


class Numbers(threading.Thread):
    """An idempotent producer of numbers until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1}
        self.count = 0
        self.errors: list[str] = []
        self.is_over = threading.Event()
        self._producer = Producer(config, logger=QUIET)

    def run(self) -> None:
        """Produce one number after the other."""
        while not self.is_over.is_set():
            self._producer.produce(TOPIC, str(self.count) * 50, partition=0, on_delivery=self._told)
            self.count += 1
            self._producer.poll(0.001)
        assert not self._producer.flush(MOVE_S)

    def _told(self, error: object, message: object) -> None:
        if error is not None:
            self.errors.append(str(error))


def place_of(places: list[Path]) -> Path | None:
    """Where the partition is, None while it is in both or in none."""
    found = [place for place in places if (place / f"{TOPIC}-0").exists()]
    return found[0] if len(found) == 1 else None


def futures(bootstrap: str) -> list[bool]:
    """``isFuture`` of each replica of the topic, as kafka-log-dirs prints it."""
    server = ("--bootstrap-server", bootstrap, "--describe", "--topic-list", TOPIC)
    printed = run_tool(LOG_DIRS, *server)
    line = next(line for line in printed.splitlines() if line.startswith("{"))
    return [
        partition["isFuture"]
        for broker in json.loads(line)["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    ]


def test_a_partition_moves_under_load(broker: Broker, places: list[Path], tmp_path: Path) -> None:
    """No error, nothing lost or doubled, also after a kill and for a move back."""
    create_topics(broker.bootstrap, TOPIC)
    wait_until(lambda: place_of(places), what="the partition")
    numbers = Numbers(broker.bootstrap)
    numbers.start()
    plan = tmp_path / "plan.json"
    try:
        for _ in range(2):
            seen = numbers.count + 500
            wait_until(lambda n=seen: numbers.count > n, what="records")  # type: ignore[misc]
            target = next(place for place in places if place != place_of(places))
            row = {"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": [str(target)]}
            plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
            tool = ("--bootstrap-server", broker.bootstrap)
            tool += ("--reassignment-json-file", str(plan))
            run_tool(REASSIGN, *tool, "--execute")
            wait_until(
                lambda t=target: place_of(places) == t,  # type: ignore[misc]
                timeout_s=MOVE_S,
                what="the move",
            )
            assert "completed successfully" in run_tool(REASSIGN, *tool, "--verify")
    finally:
        numbers.is_over.set()
        numbers.join()
    assert not numbers.errors
    assert futures(broker.bootstrap) == [False]
    expected = [str(number) * 50 for number in range(numbers.count)]
    assert [value for _, _, value in read_all(broker.bootstrap, TOPIC, 1)] == expected
    broker.kill()
    broker.restart()
    assert place_of(places) == target
    assert [value for _, _, value in read_all(broker.bootstrap, TOPIC, 1)] == expected
