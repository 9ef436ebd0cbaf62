"""How unmodified clients get over faults."""

from confluent_kafka import Consumer, KafkaException, Message
from kafka import KafkaConsumer, KafkaProducer

from kwire.errors import ErrorCode
from kwire.testing import Kafka
from kwire.testing.waiting import wait_until
from tests.testing.faults.stock import send


def commit(consumer: Consumer, message: Message) -> bool:
    """Commit the offset after a message; returns whether that succeeded."""
    try:
        consumer.commit(message, asynchronous=False)
    except KafkaException:
        return False
    return True


def test_a_producer_tries_again(kafka: Kafka) -> None:
    """librdkafka and kafka-python get over an error that passes, and each record is there once."""
    kafka.topic("orders")
    with kafka.faults.fail(
        "Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=3
    ) as fault:
        assert send(kafka) is None
        fault.wait_until_observed(3)
    with kafka.faults.fail("Produce", error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2) as fault:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, retry_backoff_ms=10)
        producer.send("orders", b"w").get(20)
        producer.close()
    assert fault.count == 2
    assert [record.value for record in kafka.records("orders")] == [b"v", b"w"]


def test_a_producer_gives_up(kafka: Kafka) -> None:
    """At an error that doesn't pass; topics without a fault are served meanwhile."""
    kafka.topic("orders")
    with kafka.faults.fail("Produce", topic="orders", error="TOPIC_AUTHORIZATION_FAILED"):
        assert "authorization" in str(send(kafka)).lower()
        assert send(kafka, "others") is None
    assert send(kafka) is None
    assert len(kafka.records("orders")) == 1


def test_a_lost_response(kafka: Kafka) -> None:
    """The record is written, the client doesn't learn of it and sends it again.

    Without idempotence it is there twice, with idempotence once.
    """
    kafka.topic("orders")
    with kafka.faults.cut("Produce", after=True, times=1):
        assert send(kafka, **{"enable.idempotence": False}) is None
    assert len(kafka.records("orders")) == 2
    with kafka.faults.cut("Produce", after=True, times=1):
        assert send(kafka, **{"enable.idempotence": True}) is None
    assert len(kafka.records("orders")) == 3


def test_a_connection_that_ends_before_the_request_is_carried_out(kafka: Kafka) -> None:
    """The client connects again; nothing is there twice."""
    kafka.topic("orders")
    with kafka.faults.cut("Produce", times=2):
        assert send(kafka, **{"enable.idempotence": False}) is None
    assert len(kafka.records("orders")) == 1


def test_a_swallowed_request_times_out(kafka: Kafka) -> None:
    """The client gives the connection up after its own timeout, and tries again on another."""
    kafka.topic("orders")
    with kafka.faults.drop("Produce", times=1) as fault:
        assert send(kafka, **{"socket.timeout.ms": 300, "request.timeout.ms": 200}) is None
    assert fault.count == 1
    assert len(kafka.records("orders")) == 1


def test_a_consumer_gets_over_errors_of_fetches(kafka: Kafka) -> None:
    """Also one that uses fetch sessions (kafka-python) and names no partitions any more."""
    kafka.topic("orders", records=["a"])
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"a"
    with kafka.faults.fail("Fetch", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2) as f:
        kafka.produce("orders", ["b"])
        assert next(consumer).value == b"b"
        for value in ("c", "d", "e"):  # until both have happened, each fetch may meet one
            kafka.produce("orders", [value])
            assert next(consumer).value == value.encode()
        f.wait_until_observed()
    consumer.close()


def test_a_group_gets_over_errors_of_its_coordinator(kafka: Kafka) -> None:
    """FindCoordinator, JoinGroup, SyncGroup and OffsetCommit, each once.

    After NOT_COORDINATOR to a commit, librdkafka may reconnect to the coordinator for a minute.
    """
    kafka.topic("orders", records=["a"])
    faults = [
        kafka.faults.fail(api, error="NOT_COORDINATOR", times=1)
        for api in ("FindCoordinator", "JoinGroup", "SyncGroup")
    ]
    error = "COORDINATOR_LOAD_IN_PROGRESS"
    faults.append(kafka.faults.fail("OffsetCommit", error=error, times=1))
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    [message] = consumer.consume(1, timeout=20)
    wait_until(lambda: commit(consumer, message), what="a commit that succeeds")
    assert kafka.lag("billing") == 0
    consumer.close()
    assert [fault.where.api for fault in faults if not fault.observed] == []
