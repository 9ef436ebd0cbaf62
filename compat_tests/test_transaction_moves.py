"""Transactions that begin on Apache Kafka and end on a kwire which took over its directory.

These brokers belong to the test, so it runs without ``KWIRE_BOOTSTRAP``.
"""

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.apache_kafka import ApacheKafka
from compat_tests.clients import QUIET
from compat_tests.reading import read_all
from compat_tests.test_transactions import PATIENCE_S, transactional
from kwire.testing.process import BrokerProcess
from tests.support.topics import create_topics

TOPIC, GROUP = "ledger", "readers"


def _open(bootstrap: str, transactional_id: str) -> Producer:
    """A producer with an open transaction: a record and an offset."""
    producer = transactional(bootstrap, transactional_id, **{"reconnect.backoff.max.ms": "200"})
    producer.begin_transaction()
    producer.produce(TOPIC, f"open {transactional_id}".encode())
    producer.flush(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP}, logger=QUIET)
    group = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 7)], group, PATIENCE_S)
    consumer.close()
    return producer


def test_the_producer_goes_on(tmp_path: Path) -> None:
    """It doesn't notice: one transaction commits, another one aborts, a third is fenced."""
    with ApacheKafka(tmp_path / "kafka") as kafka:
        create_topics(kafka.bootstrap, TOPIC)
        kafka.restart()  # so that leader epochs aren't 0
        producers = {name: _open(kafka.bootstrap, name) for name in ("commits", "aborts", "fenced")}
        kafka.stop()
        with BrokerProcess(kafka.log_dir, listen=kafka.bootstrap) as broker:
            producers["commits"].commit_transaction(PATIENCE_S)
            producers["aborts"].abort_transaction(PATIENCE_S)
            successor = transactional(broker.bootstrap, "fenced")
            successor.begin_transaction()
            successor.produce(TOPIC, b"new")
            successor.commit_transaction(PATIENCE_S)
            found = [value for _, _, value in read_all(broker.bootstrap, TOPIC, 1)]
            assert found == ["open commits", "new"]
            consumer = Consumer(
                {"bootstrap.servers": broker.bootstrap, "group.id": GROUP}, logger=QUIET
            )
            [committed] = consumer.committed([TopicPartition(TOPIC, 0)], PATIENCE_S)
            assert committed.offset == 7
            consumer.close()
            log = broker.log()
    assert "needs no marker" not in log
