"""Writes the data directory of Apache Kafka that unit tests read, and what its own consumer sees.

``python -m compat_tests.kafka_directory`` replaces the archive and the rows in ``tests/data``, with
the version that ``kafka_version`` names. The broker fills small segments of every codec and both
timestamp types, with nulls, headers and idempotent batches; transactions that were committed,
aborted and left open; the offsets of a classic and of a consumer group. Then it is stopped.
"""

import base64
import gzip
import json
import random
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests import exchange
from compat_tests.apache_kafka import ApacheKafka
from compat_tests.clients import QUIET, READ_TIMEOUT_S
from compat_tests.java_tools import run_tool
from tests.support.topics import create_topics

DATA = Path(__file__).parent.parent / "tests" / "data"
ARCHIVE = DATA / "kafka-4.4-data-dir.tar.gz"
ROWS = DATA / "kafka-4.4-expected.json.gz"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
START_MS = 1_700_000_000_000
SETTINGS = exchange.SETTINGS | {"share.coordinator.state.topic.num.partitions": "1"}
SMALL = {
    "internal.segment.bytes": "16384",
    "segment.index.bytes": "1024",
    "index.interval.bytes": "512",
    "retention.ms": "-1",
}
TOPICS: dict[str, tuple[int, dict[str, Any]]] = {
    "plain": (2, {}),
    **{f"codec-{codec}": (1, {}) for codec in exchange.CODECS},
    "compacted": (1, {"cleanup.policy": "compact"}),
    "appendtime": (1, {"message.timestamp.type": "LogAppendTime"}),
    "txn": (1, {}),
    "empty": (3, {}),
}
"""Each topic with its partitions and what it is told besides."""
COMMITTED = {("plain", 0): 369, ("plain", 1): 631}


def write(bootstrap: str) -> None:
    """Write all records, in the same order each time."""
    for topic, (partitions, configs) in TOPICS.items():
        create_topics(bootstrap, topic, partitions=partitions, **(SMALL | configs))
    chance = random.Random(44)
    _send(bootstrap, chance, "plain", 3000, {"enable.idempotence": False})
    _send(bootstrap, chance, "plain", 500, {"enable.idempotence": True})
    for codec in exchange.CODECS:
        _send(bootstrap, chance, f"codec-{codec}", 1500, {"compression.type": codec})
    _send(bootstrap, chance, "compacted", 3000, {})
    _send(bootstrap, chance, "appendtime", 600, {})
    _transactions(bootstrap)
    for group in ("classic", "consumer"):
        _commit(bootstrap, group)


def _send(
    bootstrap: str, chance: random.Random, topic: str, count: int, options: dict[str, object]
) -> None:
    """Batches of 23 records, the first of a partition somewhat before the time of the others."""
    config = {"bootstrap.servers": bootstrap, "linger.ms": 100, "batch.num.messages": 23}
    producer = Producer(config | options, logger=QUIET)
    partitions = TOPICS[topic][0]
    for number in range(count):
        has_key = topic == "compacted" or number % 17
        producer.produce(
            topic,
            None if number % 29 == 0 else f"value-{number}-{'x' * chance.randrange(120)}",
            f"key-{chance.randrange(200)}" if has_key else None,
            partition=number % partitions,
            timestamp=START_MS + number * 1000 - (0 if number else chance.randrange(30_000)),
            headers=[(f"h{number % 4}", f"v{number}"), ("empty", None)] if number % 5 == 0 else [],
        )
    assert producer.flush(READ_TIMEOUT_S) == 0


def _transactions(bootstrap: str) -> None:
    """Twelve of 40 records, each third aborted, and another producer's that is left open."""
    producer = _transactional(bootstrap, "tx-a")
    for number in range(12):
        producer.begin_transaction()
        for index in range(40):
            at = START_MS + number * 1000 + index
            producer.produce("txn", f"{number}-{index}", f"r{number}", timestamp=at)
        assert producer.flush(READ_TIMEOUT_S) == 0
        end = producer.abort_transaction if number % 3 == 2 else producer.commit_transaction
        end(READ_TIMEOUT_S)
    left = _transactional(bootstrap, "tx-open")
    left.begin_transaction()
    for index in range(10):
        left.produce("txn", f"open-{index}", timestamp=START_MS + 99_999 + index)
    assert left.flush(READ_TIMEOUT_S) == 0


def _transactional(bootstrap: str, name: str) -> Producer:
    config = {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 100}
    producer = Producer(config | {"transaction.timeout.ms": 3_000_000}, logger=QUIET)
    producer.init_transactions(READ_TIMEOUT_S)
    return producer


def _commit(bootstrap: str, protocol: str) -> None:
    """A group with one member commits, and the member leaves."""
    group = {"classic": "classic-group", "consumer": "next-gen-group"}[protocol]
    config = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
    options = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer(config | options, logger=QUIET)
    consumer.subscribe(["plain"])
    assert consumer.poll(READ_TIMEOUT_S) is not None
    offsets = [TopicPartition(*partition, offset) for partition, offset in COMMITTED.items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def rows(bootstrap: str) -> Iterator[tuple[str, list[list[object]]]]:
    """``topic-partition/isolation`` and what librdkafka's consumer reads there, bytes as base64."""
    for topic, (partitions, _) in TOPICS.items():
        levels = exchange.LEVELS[::-1] if topic == "txn" else ["read_uncommitted"]
        for partition in [(topic, index) for index in range(partitions) if topic != "empty"]:
            for level in levels:
                found = exchange.read(bootstrap, [partition], level)[partition]
                yield f"{topic}-{partition[1]}/{level}", list(map(_row, found))


def _row(row: tuple[Any, ...]) -> list[object]:
    *place, key, value, headers = row
    return [*place, _text(key), _text(value), [[name, _text(content)] for name, content in headers]]


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def main() -> None:
    """Replace both files."""
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as temporary:
        broker = ApacheKafka(temporary, SETTINGS)
        broker.log_dir.mkdir()  # it formats a directory only if there is none
        broker.prepare()
        properties = str(broker.data_dir / "server.properties")
        told = ("-t", CLUSTER_ID, "-c", properties, *broker.quorum)
        run_tool("kafka.tools.StorageTool", "format", *told)
        with broker:
            write(broker.bootstrap)
            found = dict(rows(broker.bootstrap))
        ROWS.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
        with tarfile.open(ARCHIVE, "w:gz") as archive:
            archive.add(broker.log_dir, "logs")


if __name__ == "__main__":
    main()
