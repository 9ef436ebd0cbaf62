"""``kafka_cluster``: three brokers in this process, of which a test kills one or cuts one off."""

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer

from kwire.testing import KafkaCluster
from kwire.testing.waiting import wait_until


def send(kafka: KafkaCluster, *values: str) -> None:
    """Write records with a stock client, which finds the leader itself."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(30) == 0


def values(kafka: KafkaCluster) -> list[bytes | None]:
    """The values in the topic, by partition and offset."""
    return [record.value for record in kafka.records("orders")]


def test_a_broker_that_is_killed_costs_no_record() -> None:
    """Another one leads, with a stock client and with the helpers; then it comes back."""
    with KafkaCluster() as kafka:
        kafka.topic("orders", records=["a"])
        killed = kafka.leader("orders")
        kafka.kill(killed)
        send(kafka, "b")
        assert kafka.leader("orders") != killed
        kafka.restart(killed)
        kafka.produce("orders", ["c"])
        assert values(kafka) == [b"a", b"b", b"c"]


def test_a_broker_that_is_cut_off_is_replaced() -> None:
    """It leads no more, and follows again when the network is whole."""
    with KafkaCluster() as kafka:
        kafka.topic("orders", records=["a"])
        cut_off = kafka.leader("orders")
        kafka.partition(cut_off)
        assert kafka.leader("orders") != cut_off
        kafka.produce("orders", ["b"])
        kafka.heal()
        kafka.wait_for_records("orders", 2)
        other = kafka.leader("orders")
        kafka.restart(other)
        assert values(kafka) == [b"a", b"b"]


def test_a_group_goes_on_at_another_coordinator() -> None:
    """With the offsets that it has committed."""
    with KafkaCluster() as kafka:
        kafka.topic("orders", partitions=2, records=["a", "b", "c"])
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "billing"}
        consumer = Consumer(
            settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe(["orders"])
        assert len(consumer.consume(3, timeout=30)) == 3
        consumer.commit(asynchronous=False)
        kafka.wait_for_lag("billing", 0)
        kafka.kill(kafka.coordinator("billing"))
        kafka.wait_for_lag("billing", 0)
        kafka.produce("orders", ["d"])
        [message] = consumer.consume(1, timeout=30)
        assert message.value() == b"d"
        consumer.close()


def test_workers_of_a_share_group_go_on_at_another_leader() -> None:
    """Each record comes to one of them, also those written while their leader is gone."""
    with KafkaCluster() as kafka:
        kafka.topic("orders")
        config = {"bootstrap.servers": kafka.bootstrap, "group.id": "workers"}
        workers = [ShareConsumer(config) for _ in range(2)]
        seen: set[bytes | None] = set()

        def poll() -> set[bytes | None]:
            for worker in workers:
                seen.update(m.value() for m in worker.poll(0.1) or () if not m.error())
            return seen

        def poll_with_more() -> bool:
            send(kafka, "begin")  # the group begins with the latest record
            return bool(poll())

        for worker in workers:
            worker.subscribe(["orders"])
        wait_until(poll_with_more, timeout_s=30)
        first, second = ([f"{half}-{n}" for n in range(100)] for half in ("first", "second"))
        send(kafka, *first)
        wait_until(lambda: len(poll()) > 50, timeout_s=30)
        kafka.kill(kafka.leader("orders"))
        send(kafka, *second)
        wanted = {value.encode() for value in (*first, *second)}
        wait_until(lambda: wanted <= poll(), timeout_s=60)
        for worker in workers:
            worker.close()


def test_requests_of_brokers_meet_no_fault() -> None:
    """Followers go on fetching while clients' fetches fail, so that records are replicated."""
    with KafkaCluster() as kafka:
        kafka.topic("orders")
        kafka.faults.fail("Fetch", error="UNKNOWN_SERVER_ERROR")
        send(kafka, "a")
        assert values(kafka) == [b"a"]


def test_there_are_three_brokers() -> None:
    """A fourth is a mistake of the test."""
    with KafkaCluster() as kafka:
        for act in (kafka.kill, kafka.partition, kafka.restart):
            with pytest.raises(ValueError, match="there is no broker 4: they are 1, 2 and 3"):
                act(4)


def test_a_reset_leaves_nothing_but_the_addresses() -> None:
    """Topics, groups, faults and kills of the test before are gone."""
    with KafkaCluster() as kafka:
        addresses = dict(kafka.addresses)
        kafka.topic("orders", records=["a"])
        kafka.faults.cut("Produce")
        kafka.partition(2)
        kafka.kill(1)
        kafka.reset({"num.partitions": 2})
        assert kafka.addresses == addresses
        assert kafka.describe() == "no topics"
        assert kafka.lag("billing") is None
        assert list(kafka.faults) == []
        kafka.topic("orders")
        send(kafka, "b")
        assert values(kafka) == [b"b"]
        assert kafka.leader("orders", 1) in addresses
