"""A producer of librdkafka, for tests of what a client meets."""

from confluent_kafka import KafkaException, Producer

from kwire.testing import Kafka


def send(kafka: Kafka, topic: str = "orders", **settings: object) -> Exception | None:
    """Produce one record with librdkafka; returns the error that its application is told."""
    told: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **settings})
    producer.produce(topic, b"v", on_delivery=lambda error, _: told.append(error))
    producer.flush(20)
    [error] = told
    return None if error is None else KafkaException(error)
