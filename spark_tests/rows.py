"""Rows for Spark's tests: written by a stock producer, counted by a stock consumer."""

from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

TIMEOUT_S = 180
"""How long a state may take to come, on a machine that does much else: a query of a second takes a
minute beside forty other programs."""
START_MS = 1_700_000_000_000

QUICK_FETCH = {"fetch.max.wait.ms": "20"}
"""Of Java's consumers, which wait half a second where no records follow: at markers, and when they
end while they look for more."""
KAFKA_QUICK_FETCH = {f"kafka.{name}": value for name, value in QUICK_FETCH.items()}
"""The same as options of Spark's connector."""


def produce(broker: str, topic: str, first: int, last: int, **config: Any) -> None:
    """Rows ``first`` to ``last``: key and value are the number, a second apart."""
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20, **config})
    for n in range(first, last):
        headers = [("n", b"%d" % n)]
        timestamp = START_MS + n * 1000
        producer.produce(topic, b"%d" % n, b"%d" % n, timestamp=timestamp, headers=headers)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def end_offsets(broker: str, topic: str, partitions: int) -> list[int]:
    """Where each partition ends."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "unused"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, index), TIMEOUT_S)[1]
        for index in range(partitions)
    ]
    consumer.close()
    return ends


def committed_offsets(broker: str, topic: str) -> list[int]:
    """The offsets of the records that a consumer sees in partition 0, ascending."""
    consumer = Consumer(
        {"bootstrap.servers": broker, "group.id": "unused", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        [one] = consumer.consume(1, TIMEOUT_S)
        if one.error():
            break
        found.append(one.offset())
    consumer.close()
    return found
