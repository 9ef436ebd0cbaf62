"""Rows of consumers that start together, with a stock client and its default settings."""

import logging
import threading
import time
from collections.abc import Sequence

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


def _shared_s(bootstraps: Sequence[str], consumers: int) -> float:
    """Seconds until the consumers share all partitions, and each has at least one."""
    topic, bootstrap = f"bench-together-{time.monotonic_ns()}", bootstraps[0]
    created = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
    ask(bootstrap, CreateTopicsRequest(topics=[created]), 5)
    held = [0] * consumers
    stop = threading.Event()
    threads = [
        threading.Thread(
            target=_consume,
            args=(bootstraps[index % len(bootstraps)], topic, held, index, stop),
        )
        for index in range(consumers)
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


def shared_s(bootstraps: Sequence[str], consumers: int = CONSUMERS) -> float:
    """The median of a few attempts, because single attempts vary a lot.

    The consumers take turns in which of these addresses they know.
    """
    taken = sorted(_shared_s(bootstraps, consumers) for _ in range(ATTEMPTS))
    return taken[ATTEMPTS // 2]


def _together_s(running: Running) -> float:
    return shared_s([running.broker.bootstrap])


TOGETHER_ROWS: list[Row] = [
    Row("10 classic consumers, until all hold partitions", "s", False, _together_s),
]
