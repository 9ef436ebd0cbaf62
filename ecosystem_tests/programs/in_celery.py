"""Celery, whose tasks wait in a topic: SOURCE is the queue, and each task writes to TARGET.

With more arguments the program sends a task for each and ends.
"""

import sys

from celery import Celery
from confluent_kafka import Producer

bootstrap, source, target, name, *values = sys.argv[1:]
app = Celery(name, broker=f"confluentkafka://{bootstrap}")
app.conf.update(
    task_default_queue=source,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "wait_time_seconds": 1,
        "kafka_consumer_config": {"session.timeout.ms": 6000},
    },
)


@app.task(name="capitals")
def capitals(value: str) -> None:
    """Write a value in capitals."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(target, value.upper().encode())
    assert producer.flush(30) == 0


if values:
    for value in values:
        capitals.delay(value)
else:
    app.worker_main(
        [
            "worker",
            "--pool=solo",
            "--concurrency=1",
            "--loglevel=warning",
            "--without-mingle",
            "--without-gossip",
        ]
    )
