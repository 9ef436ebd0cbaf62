"""Batches of several megabytes while the leaders of their partitions are killed.

Small batches, a second large producer and transactions write to the same partitions.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from compat_tests import own_cluster
from compat_tests.clients import QUIET
from compat_tests.conftest import Names
from compat_tests.reading import messages
from compat_tests.test_cluster_kills import check_replicas
from compat_tests.three_brokers import (
    AFTER_S,
    PARTITIONS,
    Cluster,
    Topic,
    partition_directories,
)
from kwire.testing.waiting import wait_until

bootstrap = own_cluster.bootstrap
cluster = own_cluster.cluster
names = own_cluster.names
topic = own_cluster.topic

LARGE_BYTES, SMALL_BYTES = 5_000_000, 100
MOST_BYTES = 20_000_000
ROUNDS, RECORDS = 3, 8


def value_of(name: str, number: int, size: int) -> bytes:
    """A record that shows its own bytes: any that is lost or mixed up differs."""
    word = b"%s:%d " % (name.encode(), number)
    return (word * (size // len(word) + 1))[:size]


def id_of(value: bytes) -> str:
    """The name and the number of a record; AssertionError if a byte of it is wrong."""
    word = value.split(b" ", 1)[0].decode()
    name, number = word.split(":")
    assert value == value_of(name, int(number), len(value)), f"{word} has wrong bytes"
    return word


class Writer:
    """A producer with a thread: ``write`` writes the record or the transaction of a number.

    It calls ``told`` for each record that is acknowledged.
    """

    def __init__(self, write: Callable[[int, "Writer"], None]) -> None:
        self.acknowledged: list[str] = []
        self._write = write
        self._wanted = threading.Semaphore(0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for number in count():
            self._wanted.acquire()
            if self._is_over.is_set():
                return
            self._write(number, self)

    def told(self, word: str) -> None:
        """Note that a record is acknowledged."""
        self.acknowledged.append(word)

    def begin(self, records: int) -> None:
        """Have it write so many more records or transactions."""
        self._wanted.release(records)

    @contextmanager
    def at_work(self) -> Iterator["Writer"]:
        """It writes what is wanted inside of the ``with`` block."""
        self._thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            self._wanted.release()
            self._thread.join()


def producer(where: str, **options: object) -> Producer:
    """An idempotent producer of large batches."""
    config = {
        "bootstrap.servers": where,
        "acks": "all",
        "linger.ms": 0,
        "enable.idempotence": True,
        "message.max.bytes": MOST_BYTES,
    }
    return Producer({**config, **options}, logger=QUIET)


def plain(where: str, topic: str, name: str, size: int) -> Writer:
    """A producer of batches of one record each."""
    made = producer(where)

    def write(number: int, writer: Writer) -> None:
        def told(error: KafkaError | None, _: object) -> None:
            if error is None:
                writer.told(f"{name}:{number}")

        value = value_of(name, number, size)
        made.produce(topic, value, partition=number % PARTITIONS, on_delivery=told)
        assert not made.flush(AFTER_S)

    return Writer(write)


def transactional(where: str, topic: str, name: str, transactional_id: str) -> Writer:
    """A producer with a large batch for each partition in a transaction."""
    made = producer(where, **{"transactional.id": transactional_id})
    made.init_transactions(AFTER_S)

    def commit(numbers: Iterable[int]) -> bool:
        made.begin_transaction()
        try:
            for number in numbers:
                value = value_of(name, number, LARGE_BYTES)
                made.produce(topic, value, partition=number % PARTITIONS)
            made.commit_transaction(AFTER_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            made.abort_transaction(AFTER_S)
            return False
        return True

    def write(number: int, writer: Writer) -> None:
        numbers = range(number * PARTITIONS, (number + 1) * PARTITIONS)
        while not commit(numbers):
            pass
        for one in numbers:
            writer.told(f"{name}:{one}")

    return Writer(write)


def test_large_batches_outlive_their_leaders(
    cluster: Cluster, topic: Topic, admin: KafkaAdminClient, names: Names
) -> None:
    """What was acknowledged is there once, byte for byte, and all replicas hold the same."""
    admin.alter_configs(
        [
            ConfigResource(
                ConfigResourceType.TOPIC,
                topic.name,
                configs={"max.message.bytes": str(MOST_BYTES), "min.insync.replicas": "2"},
            )
        ]
    )
    where = cluster.bootstrap
    writers = [
        plain(where, topic.name, "first", LARGE_BYTES),
        plain(where, topic.name, "second", LARGE_BYTES),
        plain(where, topic.name, "small", SMALL_BYTES),
        transactional(where, topic.name, "whole", names.topic()),
    ]

    def are_told(records: int) -> bool:
        return all(len(writer.acknowledged) >= records for writer in writers)

    with ExitStack() as stack:
        for writer in writers:
            stack.enter_context(writer.at_work())
        for number in range(ROUNDS):
            before = number * RECORDS
            for writer in writers:
                writer.begin(RECORDS)
            wait_until(partial(are_told, before + 1), timeout_s=AFTER_S, what="the first records")
            victim = cluster.brokers[topic.partitions()[number % PARTITIONS][0]]
            victim.kill()
            wait_until(partial(are_told, before + RECORDS), timeout_s=AFTER_S, what="all records")
            victim.restart()
            topic.wait_in_sync(3)
    read = messages(where, topic.name, PARTITIONS)
    found = Counter(id_of(message.value() or b"") for message in read)
    told = {word for writer in writers for word in writer.acknowledged}
    assert told == set(found)
    assert set(found.values()) == {1}
    for number in range(PARTITIONS):
        check_replicas(partition_directories(cluster, f"{topic.name}-{number}"))
