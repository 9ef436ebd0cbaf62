"""Replicated topics on three real brokers and a real etcd, as stock clients see them."""

import threading
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.server.clusters import bootstrap_of

pytestmark = pytest.mark.processes

PARTITIONS = 6
MIN_ISR = {"min.insync.replicas": "2"}


@pytest.fixture
def admin(start):
    """Three brokers, and a topic ``t`` with three replicas of each partition."""
    brokers = {node_id: start(node_id) for node_id in (1, 2, 3)}
    admin = AdminClient({"bootstrap.servers": bootstrap_of(brokers)})
    wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == 3, what="three brokers")
    topic = NewTopic("t", PARTITIONS, 3, config=MIN_ISR)
    admin.create_topics([topic])["t"].result(30)
    admin.brokers = brokers
    return admin


def _rows(admin):
    return admin.list_topics("t", timeout=10).topics["t"].partitions.values()


def _wait_in_sync(admin, count):
    wait_until(
        lambda: all(len(row.isrs) == count and row.leader > 0 for row in _rows(admin)),
        what=f"{count} replicas in sync",
    )


class Writer:
    """Writes numbered records with acks=all until it is told to stop."""

    def __init__(self, brokers: dict[int, BrokerProcess]) -> None:
        self.acknowledged: set[str] = set()
        self.errors: list[object] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_of(brokers), "enable.idempotence": True}
        )
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stops.is_set():
            self._producer.produce(
                "t", str(number).encode(), partition=number % PARTITIONS, on_delivery=self._told
            )
            self._producer.poll(0.002)
            number += 1
        self._producer.flush(30)

    def _told(self, error: object, message: object) -> None:
        if error:
            self.errors.append(error)
        else:
            self.acknowledged.add(message.value().decode())

    def stop(self) -> None:
        self._stops.set()
        self._thread.join()


def _read_all(brokers, count):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_of(brokers),
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )
    consumer.assign([TopicPartition("t", n, 0) for n in range(PARTITIONS)])
    found: list[str] = []
    with suppress(AssertionError):
        wait_until(lambda: _read_some(consumer, found) >= count, what="all records", timeout_s=30)
    consumer.close()
    return found


def _read_some(consumer, found):
    for message in consumer.consume(1000, 0.2):
        assert not message.error()
        found.append(message.value().decode())
    return len(found)


def test_acknowledged_records_outlive_their_leaders(admin):
    """Each broker is killed once while a producer writes; nothing is lost or there twice.

    They come back on their ports, as in life: a client that can't reach one of the brokers it
    knows goes back to its bootstrap servers (KIP-1102), which have to be somebody by then.
    """
    brokers = admin.brokers
    writer = Writer(brokers)
    try:
        for node_id, broker in brokers.items():
            wait_until(lambda n=node_id: len(writer.acknowledged) > 100 * n, what="some records")
            _wait_in_sync(admin, 3)
            broker.kill()
            _wait_in_sync(admin, 2)
            before = len(writer.acknowledged)
            wait_until(lambda before=before: len(writer.acknowledged) > before + 50, what="more")
            broker.restart()
        _wait_in_sync(admin, 3)
    finally:
        writer.stop()
    assert writer.errors == []
    found = _read_all(brokers, len(writer.acknowledged))
    assert sorted(found) == sorted(writer.acknowledged)


def test_preferred_leaders_by_the_admin_client(admin):
    """After a restart, leadership comes back when it is asked for."""
    brokers = admin.brokers
    _wait_in_sync(admin, 3)
    preferred = {row.id: row.leader for row in _rows(admin)}
    brokers[1].stop()
    wait_until(lambda: all(row.leader in (2, 3) for row in _rows(admin)), what="a hand-over")
    brokers[1].restart()
    _wait_in_sync(admin, 3)
    assert {row.id: row.leader for row in _rows(admin)} != preferred
    admin.elect_leaders(ElectionType.PREFERRED, None).result(30)
    wait_until(lambda: {row.id: row.leader for row in _rows(admin)} == preferred, what="they lead")
