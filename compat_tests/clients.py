"""Stock clients behind one small face: write rows with one, read them with another.

A row is (key, value, headers): bytes, bytes or None, and a list of (name, bytes).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonTopicPartition

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]

READ_TIMEOUT_S = 30
QUIET = logging.getLogger("kwire.compat.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def produce_confluent(bootstrap: str, topic: str, rows: Sequence[Row], **options: Any) -> None:
    """Write with librdkafka; every delivery is checked."""
    failures: list[Any] = []
    config = {"bootstrap.servers": bootstrap, **options}
    producer = Producer(config, logger=QUIET)

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)

    for key, value, headers in rows:
        producer.produce(topic, value, key, headers=headers, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(READ_TIMEOUT_S) == 0
    assert not failures, failures[:3]


def produce_kafka_python(bootstrap: str, topic: str, rows: Sequence[Row], **options: Any) -> None:
    """Write with kafka-python; every delivery is checked."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, **options)
    sent = [producer.send(topic, value, key, headers) for key, value, headers in rows]
    producer.flush()
    for future in sent:
        future.get(READ_TIMEOUT_S)
    producer.close()


def produce_aiokafka(bootstrap: str, topic: str, rows: Sequence[Row], **options: Any) -> None:
    """Write with aiokafka; every delivery is checked."""

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **options)
        await producer.start()
        try:
            sent = [
                await producer.send(topic, value, key, headers=headers)
                for key, value, headers in rows
            ]
            await producer.flush()
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    asyncio.run(run())


def consume_confluent(bootstrap: str, topic: str, count: int) -> list[Row]:
    """The first ``count`` rows of partition 0, read with librdkafka."""
    config = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(config, logger=QUIET)
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: list[Row] = []
    try:
        while len(rows) < count:
            batch = consumer.consume(count - len(rows), READ_TIMEOUT_S)
            assert batch, f"{len(rows)} of {count} rows came"
            for message in batch:
                if message.error():
                    raise KafkaException(message.error())
                rows.append((message.key(), message.value(), list(message.headers() or [])))
    finally:
        consumer.close()
    return rows


def consume_kafka_python(bootstrap: str, topic: str, count: int) -> list[Row]:
    """The first ``count`` rows of partition 0, read with kafka-python."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=READ_TIMEOUT_S * 1000)
    partition = KafkaPythonTopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    rows: list[Row] = []
    for message in consumer:
        rows.append((message.key, message.value, list(message.headers)))
        if len(rows) == count:
            break
    consumer.close()
    return rows


def consume_aiokafka(bootstrap: str, topic: str, count: int) -> list[Row]:
    """The first ``count`` rows of partition 0, read with aiokafka."""

    async def run() -> list[Row]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            rows: list[Row] = []
            while len(rows) < count:
                message = await asyncio.wait_for(consumer.getone(), READ_TIMEOUT_S)
                rows.append((message.key, message.value, list(message.headers)))
            return rows
        finally:
            await consumer.stop()

    return asyncio.run(run())


PRODUCERS: dict[str, Callable[..., None]] = {
    "confluent": produce_confluent,
    "kafka-python": produce_kafka_python,
    "aiokafka": produce_aiokafka,
}
CODEC_OPTION = {
    "confluent": "compression.type",
    "kafka-python": "compression_type",
    "aiokafka": "compression_type",
}
CONSUMERS: dict[str, Callable[[str, str, int], list[Row]]] = {
    "confluent": consume_confluent,
    "kafka-python": consume_kafka_python,
    "aiokafka": consume_aiokafka,
}
