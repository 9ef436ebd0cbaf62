"""``kafka_secured``: users in one line, who may do what the test says."""

import pytest
from confluent_kafka import KafkaException, Producer
from kafka import KafkaConsumer

from kwire.testing import KafkaSecured


def refused(user: dict[str, object], topic: str) -> str | None:
    """The name of the error with which a record is refused; None if it is taken."""
    told: list[str | None] = []
    producer = Producer(user | {"message.timeout.ms": 10_000})
    producer.produce(
        topic,
        "a",
        on_delivery=lambda error, _: told.append(None if error is None else error.name()),
    )
    producer.flush(15)
    return told[0]


def test_a_user_may_do_what_the_test_says() -> None:
    """With librdkafka and kafka-python; another right is refused, and can be given later."""
    with KafkaSecured() as kafka:
        kafka.topic("orders")
        kafka.topic("bills")
        alice = kafka.user("alice", "WRITE topic:orders", "READ topic:orders", "READ group:*")
        assert refused(alice.librdkafka, "orders") is None
        assert refused(alice.librdkafka, "bills") == "TOPIC_AUTHORIZATION_FAILED"
        kafka.user("alice", "WRITE,DESCRIBE topic:bil*")
        assert refused(alice.librdkafka, "bills") is None
        consumer = KafkaConsumer(
            "orders", group_id="billing", auto_offset_reset="earliest", **alice.kafka_python
        )
        assert next(consumer).value == b"a"
        consumer.commit()
        consumer.close()
        kafka.wait_for_lag("billing", 0)


def test_a_wrong_password_is_refused() -> None:
    """Before any request."""
    with KafkaSecured() as kafka:
        alice = kafka.user("alice", password="right")
        wrong = Producer(alice._replace(password="wrong").librdkafka)
        with pytest.raises(KafkaException):
            wrong.list_topics(timeout=3)
        assert "wrong name or password for user 'alice'" in kafka.log()


def test_users_outlive_a_restart_and_no_reset() -> None:
    """And both keep the address."""
    with KafkaSecured() as kafka:
        kafka.topic("orders")
        alice = kafka.user("alice", "WRITE topic:orders")
        kafka.restart()
        assert alice.bootstrap == kafka.bootstrap
        assert refused(alice.librdkafka, "orders") is None
        kafka.reset()
        kafka.topic("orders")
        producer = Producer(alice.librdkafka)
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=3)


@pytest.mark.parametrize(
    ("right", "said"),
    [
        ("READ", 'write a right as "READ topic:orders"'),
        ("REED topic:orders", "there is no operation REED"),
        ("READ topc:orders", "there is no type topc"),
    ],
)
def test_a_right_that_cannot_be_read(right: str, said: str) -> None:
    """The error says how to write it."""
    with KafkaSecured() as kafka, pytest.raises(ValueError, match=said):
        kafka.user("alice", right)


def test_nothing_is_said_against_its_settings(caplog: pytest.LogCaptureFixture) -> None:
    """Its clients do log in."""
    with KafkaSecured({"log.cleaner.threads": 2}):  # settings that no other test has had read
        pass
    assert "no listener is protected" not in caplog.text
