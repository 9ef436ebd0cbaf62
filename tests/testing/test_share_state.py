"""Queues in tests: who has which record, workers that die, and faults, with a stock client."""

from contextlib import ExitStack

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

from kwire.testing import Kafka, KafkaCluster, KafkaProcess
from kwire.testing.helpers import Helpers
from kwire.testing.waiting import wait_until

EXPLICIT = {"share.acknowledgement.mode": "explicit"}


@pytest.fixture
def opened():
    """Closes consumers after the test."""
    with ExitStack() as stack:
        yield stack


def worker(opened: ExitStack, kafka: Helpers, **config: str) -> ShareConsumer:
    """A consumer of the group ``workers`` that acknowledges explicitly, and has joined."""
    consumer = ShareConsumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "workers"} | EXPLICIT | config
    )
    opened.callback(consumer.close)
    consumer.subscribe(["orders"])
    return consumer


def first_messages(kafka: Helpers, consumer: ShareConsumer) -> list[Message]:
    """The first records that a new group gets: it begins at the end of its topic."""

    def found() -> list[Message]:
        kafka.produce("orders", ["order"])
        return [one for one in consumer.poll(0.2) or () if not one.error()]

    return wait_until(found, timeout_s=30, what="a record")


def next_messages(consumer: ShareConsumer) -> list[Message]:
    """The next records."""
    return wait_until(
        lambda: [one for one in consumer.poll(0.2) or () if not one.error()],
        timeout_s=30,
        what="a record",
    )


def test_who_has_what(kafka: Kafka, opened: ExitStack) -> None:
    """What a worker has acquired, what it has done, and what waits."""
    kafka.topic("orders")
    assert kafka.share_state("workers").start_offsets == {}
    consumer = worker(opened, kafka)
    message = first_messages(kafka, consumer)[0]
    offset = message.offset()
    state = kafka.share_state("workers")
    assert state.start_offsets == {("orders", 0): offset}
    held = state.acquired[0]
    assert (held.topic, held.partition, held.offset, held.deliveries) == ("orders", 0, offset, 1)
    assert held.member
    consumer.acknowledge(message, AcknowledgeType.ACCEPT)
    consumer.commit_sync()
    assert kafka.share_state("workers").start_offsets == {("orders", 0): offset + 1}


def test_a_worker_that_is_gone_keeps_no_record(kafka: Kafka, opened: ExitStack) -> None:
    """The state is known without any member; what was delivered waits, what is done is done."""
    kafka.topic("orders")
    with ExitStack() as soon:
        consumer = worker(soon, kafka)
        message = first_messages(kafka, consumer)[0]
    state = kafka.share_state("workers")
    assert state.start_offsets == {("orders", 0): message.offset()}
    assert state.acquired == []
    assert [one.offset for one in state.available][:1] == [message.offset()]


def test_a_lock_that_ends_at_once(kafka: Kafka, opened: ExitStack) -> None:
    """Another worker gets the record; the acknowledgement of the first one is too late."""
    kafka.topic("orders")
    slow = worker(opened, kafka)
    message = first_messages(kafka, slow)[0]
    kafka.end_share_locks("workers")
    [again, *_] = next_messages(worker(opened, kafka))
    assert again.offset() == message.offset()
    state = kafka.share_state("workers")
    assert (state.acquired[0].offset, state.acquired[0].deliveries) == (message.offset(), 2)


def test_time_that_runs_ahead_ends_locks(kafka: Kafka, opened: ExitStack) -> None:
    """As the group's share.record.lock.duration.ms says."""
    kafka.topic("orders")
    consumer = worker(opened, kafka)
    message = first_messages(kafka, consumer)[0]
    kafka.clock.advance(seconds=31)
    state = kafka.share_state("workers")
    assert state.acquired == []
    assert (state.available[0].offset, state.available[0].deliveries) == (message.offset(), 1)


def errors_of_commit(consumer: ShareConsumer) -> list[str]:
    """What a worker is told of its acknowledgements."""
    try:
        told = consumer.commit_sync() or {}
    except KafkaException as error:
        return [str(error)]
    return [str(one.error) for one in told if one.error is not None]


def test_an_acknowledgement_that_fails(kafka: Kafka, opened: ExitStack) -> None:
    """The worker is told, and still has the record."""
    kafka.topic("orders")
    consumer = worker(opened, kafka)
    message = first_messages(kafka, consumer)[0]
    with kafka.faults.fail(
        "ShareAcknowledge", topic="orders", error="INVALID_RECORD_STATE", times=1
    ):
        consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        [told] = errors_of_commit(consumer)
    assert "INVALID_RECORD_STATE" in told
    assert kafka.share_state("workers").acquired[0].offset == message.offset()


def test_an_acquisition_that_fails(kafka: Kafka, opened: ExitStack) -> None:
    """The worker tries again, and gets its records."""
    kafka.topic("orders")
    consumer = worker(opened, kafka, **{"share.acknowledgement.mode": "implicit"})
    [*_, message] = first_messages(kafka, consumer)
    found: list[int] = []
    with kafka.faults.fail("ShareFetch", error="LEADER_NOT_AVAILABLE", times=1) as fault:
        kafka.produce("orders", ["next"])

        def is_there() -> bool:
            found.extend(one.offset() for one in consumer.poll(0.2) or () if not one.error())
            return fault.observed and bool(found)

        wait_until(is_there, timeout_s=30, what="records after a fault")
    assert min(found) > message.offset()


def test_an_acquisition_that_fails_for_one_topic(kafka: Kafka, opened: ExitStack) -> None:
    """Requests of a session name no partitions; the other topic's records come all the same."""
    kafka.topic("orders")
    kafka.topic("returns")
    consumer = worker(opened, kafka, **{"share.acknowledgement.mode": "implicit"})
    consumer.subscribe(["orders", "returns"])
    first_messages(kafka, consumer)
    found: set[str] = set()

    def has(topic: str) -> bool:
        found.update(one.topic() for one in consumer.poll(0.2) or () if not one.error())
        return topic in found

    def has_returns() -> bool:
        kafka.produce("returns", ["return"])
        return has("returns")

    wait_until(has_returns, timeout_s=30, what="a record of each topic")
    error = "NOT_LEADER_OR_FOLLOWER"
    with kafka.faults.fail("ShareFetch", topic="orders", error=error) as fault:
        wait_until(
            lambda: not consumer.poll(0.2) and fault.observed, timeout_s=30, what="the fault"
        )
        found.clear()
        kafka.produce("orders", ["next"])
        kafka.produce("returns", ["next"])
        wait_until(lambda: has("returns"), timeout_s=30, what="the other topic")
        assert found == {"returns"}
    wait_until(lambda: has("orders"), timeout_s=30, what="the topic after the fault")


def test_the_locks_of_a_broker_in_a_process_end(opened: ExitStack) -> None:
    """At once, and also after it was killed."""
    with KafkaProcess(start_timeout_s=60) as kafka:
        kafka.topic("orders")
        consumer = worker(opened, kafka)
        message = first_messages(kafka, consumer)[0]
        kafka.end_share_locks("workers")
        [free, *_] = kafka.share_state("workers").available
        assert (free.offset, free.deliveries) == (message.offset(), 1)
        assert kafka.share_state("workers").acquired == []
        kafka.kill()
        kafka.restart()
        kafka.end_share_locks("workers")


def test_share_groups_of_a_cluster(opened: ExitStack) -> None:
    """The helpers ask every broker."""
    with KafkaCluster() as kafka:
        kafka.topic("orders")
        with ExitStack() as soon:
            consumer = worker(soon, kafka)
            message = first_messages(kafka, consumer)[0]
            assert kafka.share_state("workers").acquired[0].offset == message.offset()
            kafka.end_share_locks("workers")
            assert kafka.share_state("workers").acquired == []
