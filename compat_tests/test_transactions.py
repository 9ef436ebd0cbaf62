"""Transactions with stock clients: what is read is exactly what was committed."""

import asyncio
import contextlib
import random
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterable

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaProducer

from compat_tests.clients import QUIET, READ_TIMEOUT_S, produce_confluent
from compat_tests.conftest import Names
from compat_tests.histories import History, Outcome
from compat_tests.reading import read_all, wait_ended
from tests.support.topics import create_topics

PATIENCE_S = 30
PARTITIONS = 3


def transactional(bootstrap: str, transactional_id: str, **options: object) -> Producer:
    """A producer of confluent-kafka that may begin."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **options}
    producer = Producer(config, logger=QUIET)
    producer.init_transactions(PATIENCE_S)
    return producer


class Writer(threading.Thread):
    """A producer whose transactions commit and abort by chance, noted in a history."""

    def __init__(self, bootstrap: str, topic: str, name: str, history: History) -> None:
        super().__init__(name=name)
        self.topic = topic
        self.history = history
        self.dice = random.Random(name)
        self.producer = transactional(bootstrap, f"{topic}-{name}")

    def run(self) -> None:
        """A dozen transactions."""
        for number in range(12):
            self.transaction(f"{self.name}/{number}")

    def transaction(self, name: str) -> None:
        """One transaction, now and then flushed before its end."""
        self.producer.begin_transaction()
        for record in range(self.dice.randrange(1, 30)):
            partition, value = self.dice.randrange(PARTITIONS), f"{name}/{record}"
            self.producer.produce(self.topic, value.encode(), partition=partition)
            self.history.wrote(name, partition, value)
        if self.dice.random() < 0.5:
            self.producer.flush(PATIENCE_S)
        if self.dice.random() < 0.4:
            self.producer.abort_transaction(PATIENCE_S)
            self.history.ended(name, Outcome.ABORTED)
        else:
            self.producer.commit_transaction(PATIENCE_S)
            self.history.ended(name, Outcome.COMMITTED)


def test_what_is_read_is_what_was_committed(bootstrap: str, names: Names) -> None:
    """Producers whose transactions overlap in every partition."""
    topic, history = names.topic("ledger"), History()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    writers = [Writer(bootstrap, topic, name, history) for name in ("p", "q", "r", "s")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    wait_ended(bootstrap, topic, PARTITIONS)
    for read in read_all(bootstrap, topic, PARTITIONS):
        history.read(*read)
    history.check()
    everything = list(read_all(bootstrap, topic, PARTITIONS, "read_uncommitted"))
    assert len(everything) > history.committed_count


def test_a_second_producer_fences_the_first(bootstrap: str, names: Names) -> None:
    """The open transaction of the first is aborted; it can't go on."""
    topic = names.topic("fenced")
    create_topics(bootstrap, topic)
    first = transactional(bootstrap, topic)
    first.begin_transaction()
    first.produce(topic, b"never seen")
    first.flush(PATIENCE_S)
    second = transactional(bootstrap, topic)
    second.begin_transaction()
    second.produce(topic, b"seen")
    second.commit_transaction(PATIENCE_S)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(PATIENCE_S)
    assert refused.value.args[0].fatal()
    wait_ended(bootstrap, topic, 1)
    assert [value for _, _, value in read_all(bootstrap, topic, 1)] == ["seen"]


def test_the_last_stable_offset(bootstrap: str, names: Names) -> None:
    """ListOffsets and consumers stop at an open transaction, and go on when it ends."""
    topic = names.topic("stable")
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, [(None, b"before", [])])
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(PATIENCE_S)
    produce_confluent(bootstrap, topic, [(None, b"after", [])])
    assert _end(bootstrap, topic, IsolationLevel.READ_COMMITTED) == 1
    assert _end(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED) == 3
    assert [value for _, _, value in read_all(bootstrap, topic, 1)] == ["before"]
    producer.abort_transaction(PATIENCE_S)
    wait_ended(bootstrap, topic, 1)
    assert _end(bootstrap, topic, IsolationLevel.READ_COMMITTED) == 4
    assert list(read_all(bootstrap, topic, 1)) == [(0, 0, "before"), (0, 2, "after")]


def _end(bootstrap: str, topic: str, isolation: IsolationLevel) -> int:
    client = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    where = TopicPartition(topic, 0)
    asked = client.list_offsets({where: OffsetSpec.latest()}, isolation_level=isolation)
    return int(asked[where].result(READ_TIMEOUT_S).offset)


def test_offsets_of_a_transaction(bootstrap: str, names: Names) -> None:
    """They count from the commit on, and not at all after an abort."""
    topic, group = names.topic("offsets"), names.group()
    create_topics(bootstrap, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group}, logger=QUIET)
    producer = transactional(bootstrap, topic)
    for offset, commits in ((5, True), (9, False)):
        producer.begin_transaction()
        producer.produce(topic, b"x")
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S
        )
        if commits:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
        client = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
        asked = client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], require_stable=True
        )
        [found] = asked[group].result(READ_TIMEOUT_S).topic_partitions
        assert found.offset == 5
    consumer.close()


def test_kafka_python(bootstrap: str, names: Names) -> None:
    """Its transactions commit and abort like others."""
    topic = names.topic("kafka-python")
    create_topics(bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    wait_ended(bootstrap, topic, 1)
    assert [value for _, _, value in read_all(bootstrap, topic, 1)] == ["0", "2"]


def test_aiokafka(bootstrap: str, names: Names) -> None:
    """Its transactions commit and abort like others."""
    topic = names.topic("aiokafka")
    create_topics(bootstrap, topic)

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        await producer.start()
        for number in range(4):
            with contextlib.suppress(ArithmeticError):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"%d" % number)
                    if number % 2:
                        raise ArithmeticError
        await producer.stop()

    asyncio.run(run())
    wait_ended(bootstrap, topic, 1)
    assert [value for _, _, value in read_all(bootstrap, topic, 1)] == ["0", "2"]


def test_transforming_processes_that_are_killed(bootstrap: str, names: Names) -> None:
    """Consume, transform, produce: every record comes out once, whoever dies meanwhile."""
    source, target, group = names.topic("in"), names.topic("out"), names.group()
    partitions, count = 2, 1500
    create_topics(bootstrap, source, partitions=partitions)
    create_topics(bootstrap, target, partitions=partitions)
    values = [b"%d" % number for number in range(count)]
    produce_confluent(bootstrap, source, [(value, value, []) for value in values])

    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "compat_tests.transform"]
        command += [bootstrap, source, target, group, f"{group}-{name}"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    workers = {name: start(name) for name in ("a", "b")}
    dice = random.Random(7)
    try:
        for name in ("a", "b", "a", "b"):
            _wait_for_commits(workers.values(), dice.randrange(1, 4))
            workers[name].kill()
            _reap(workers[name])
            workers[name] = start(name)
        give_up_at = time.monotonic() + 2 * PATIENCE_S
        while len(found := list(read_all(bootstrap, target, partitions))) < count:
            assert time.monotonic() < give_up_at, f"{len(found)} of {count} records came out"
            for name, worker in workers.items():
                if worker.poll() is not None:
                    _reap(worker)
                    workers[name] = start(name)
    finally:
        for worker in workers.values():
            worker.kill()
            _reap(worker)
    assert sorted(int(value.rstrip("+")) for _, _, value in found) == list(range(count))
    assert all(value.endswith("+") and not value.endswith("++") for _, _, value in found)


def _wait_for_commits(workers: Iterable[subprocess.Popen[str]], count: int) -> None:
    """Wait until the workers have told of some commits."""
    pipes = [worker.stdout for worker in workers if worker.stdout is not None]
    for _ in range(count):
        ready, _, _ = select.select(pipes, [], [], PATIENCE_S)
        assert ready, "no worker has committed anything"
        ready[0].readline()


def _reap(worker: subprocess.Popen[str]) -> None:
    worker.wait()
    assert worker.stdout is not None
    worker.stdout.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_only_members_commit_for_their_group(bootstrap: str, names: Names, protocol: str) -> None:
    """A member's offsets are taken with its transaction; one that has left is refused (KIP-447)."""
    topic, group = names.topic("members"), names.group()
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, [(None, b"x", [])] * 10)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        },
        logger=QUIET,
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(10, PATIENCE_S)) == 10
    member = consumer.consumer_group_metadata()
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 4)], member, PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)
    assert consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 4
    consumer.close()
    producer.begin_transaction()
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 9)], member, PATIENCE_S)
    assert refused.value.args[0].txn_requires_abort()
    producer.abort_transaction(PATIENCE_S)
