"""Faults of a broker in a process of its own: the same as in a thread, through kills as well."""

import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kwire.testing.faults import elsewhere
from kwire.testing.faults.planning import NotObserved
from kwire.testing.kafka_process import KafkaProcess
from kwire.testing.process import BrokerFailed


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaProcess]:
    """A broker in a process."""
    with KafkaProcess() as made:
        yield made


def produce(kafka: KafkaProcess, topic: str, value: str, **settings: object) -> None:
    """Write a record with a stock client."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **settings})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def test_requests_fail_are_cut_and_are_late(kafka: KafkaProcess) -> None:
    """As often as planned; the count is there as soon as the client has seen the fault."""
    kafka.topic("orders")
    error = "NOT_LEADER_OR_FOLLOWER"
    with kafka.faults.fail("Produce", topic="orders", error=error, times=2) as fault:
        produce(kafka, "orders", "first")
        assert fault.count == 2
    idempotent = {"enable.idempotence": True}
    with kafka.faults.cut("Produce", after=True, times=1):
        produce(kafka, "orders", "second", **idempotent)
    with kafka.faults.delay("Produce", seconds=0.05, client_id="slow") as fault:
        produce(kafka, "orders", "third", **{"client.id": "slow"})
        fault.wait_until_observed()
    assert [record.value for record in kafka.records("orders")] == [b"first", b"second", b"third"]
    produce(kafka, "orders", "fourth", **{"client.id": "slow"})
    assert fault.count == 1, "it was removed"


def test_a_fault_that_nobody_met(kafka: KafkaProcess) -> None:
    """The test of an error path that was not taken fails; wrong names are told at once."""
    with pytest.raises(NotObserved, match="no client met this fault: <drop"), kafka.faults.drop():
        pass
    with pytest.raises(ValueError, match="kwire serves no API 'Produse'; there is Produce"):
        kafka.faults.drop("Produse")
    with pytest.raises(NotObserved, match="for 1 times"):
        kafka.faults.drop("Heartbeat").wait_until_observed(timeout_s=0)
    assert "<drop(Heartbeat): happened 0 times>" in kafka.report()
    kafka.faults.clear()
    assert list(kafka.faults) == []


def test_faults_outlive_kills_with_their_counts(kafka: KafkaProcess) -> None:
    """What has happened is known though the process is gone; the next one goes on counting."""
    kafka.topic("bills")
    error = "NOT_ENOUGH_REPLICAS"
    fault = kafka.faults.fail("Produce", topic="bills", error=error, times=3)
    removed = kafka.faults.drop("Produce")
    removed.remove()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "retry.backoff.ms": 1000})
    producer.produce("bills", "first")
    producer.poll(0)
    fault.wait_until_observed()
    kafka.kill()
    before = fault.count
    assert before >= 1
    kafka.restart()
    assert producer.flush(60) == 0
    assert fault.count == 3
    assert len(kafka.records("bills")) == 1


def test_a_broker_that_hangs_takes_no_fault(
    kafka: KafkaProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test is told, because the fault would not happen."""
    monkeypatch.setattr(elsewhere, "ANSWER_S", 0.01)
    os.kill(kafka.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, kafka.pid, os.WSTOPPED)
    try:
        with pytest.raises(BrokerFailed, match="takes no fault"):
            kafka.faults.drop("Produce")
    finally:
        os.kill(kafka.pid, signal.SIGCONT)
