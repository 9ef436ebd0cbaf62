"""A row of ten consumers that start together, with a stock client and its default settings."""

import logging
import threading
import time

from bench.load import ask
from bench.rows.common import Row, Running, delete_topic
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

CONSUMERS = 10
PARTITIONS = 20
ATTEMPTS = 5
TIME_LIMIT_S = 60


def _consume(
    bootstrap: str, topic: str, held: list[int], index: int, stop: threading.Event
) -> None:
    from confluent_kafka import Consumer

    config = {"bootstrap.servers": bootstrap, "group.id": topic}
    consumer = Consumer(config, logger=logging.getLogger("bench.quiet"))
    consumer.subscribe([topic])
    while not stop.is_set():
        consumer.poll(0.02)
        held[index] = len(consumer.assignment())
    consumer.close()


def _shared_s(bootstrap: str) -> float:
    """Seconds until ten consumers share all partitions, and each has at least one."""
    topic = f"bench-together-{time.monotonic_ns()}"
    created = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
    ask(bootstrap, CreateTopicsRequest(topics=[created]), 5)
    held = [0] * CONSUMERS
    stop = threading.Event()
    threads = [
        threading.Thread(target=_consume, args=(bootstrap, topic, held, index, stop))
        for index in range(CONSUMERS)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    try:
        while sum(held) != PARTITIONS or not all(held):
            if time.perf_counter() - started > TIME_LIMIT_S:
                raise RuntimeError(f"the consumers hold {held}")
            time.sleep(0.005)
        return time.perf_counter() - started
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        delete_topic(bootstrap, topic)


def shared_s(running: Running) -> float:
    """The median of a few attempts, because single attempts vary a lot."""
    taken = sorted(_shared_s(running.broker.bootstrap) for _ in range(ATTEMPTS))
    return taken[ATTEMPTS // 2]


TOGETHER_ROWS: list[Row] = [
    Row("10 classic consumers, until all hold partitions", "s", False, shared_s),
]
