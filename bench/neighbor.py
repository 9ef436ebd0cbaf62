"""Well-behaved clients, which measure how long they wait beside other clients.

``python -m bench.neighbor HOST:PORT TOPIC SECONDS`` prints JSON: all waits in seconds, by what the
clients wait for.

- ``produce`` and ``deliver``: one client writes a record and waits until it is acknowledged and
  until the consumer's long poll returns it. It repeats that ``PAUSE_S`` later.
- ``flush``: another writes a record every ``FLUSH_PAUSE_S`` to a topic with ``flush.messages=1``.
- ``create``: a third creates a topic and deletes it, every ``CREATE_PAUSE_S``.
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from bench.load import connected, decoded, frame_of, read_frame
from bench.rows.common import (
    CREATE_VERSION,
    PRODUCE_VERSION,
    create_topic,
    next_offset,
    produce_request,
)
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_VERSION = 11
DELETE_VERSION = 5
PAUSE_S = 0.003
FLUSH_PAUSE_S = 0.02
CREATE_PAUSE_S = 0.05
LONGEST_POLL_MS = 60_000

Waits = dict[str, list[float]]


def fetch_from(topic: str, offset: int) -> FetchRequest:
    """A long poll for the record at ``offset``."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=LONGEST_POLL_MS,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def deliveries(
    bootstrap: str,
    topic: str,
    end: float,
    taken: Waits,
    connect: Callable[[], socket.socket] | None = None,
) -> None:
    """The waits of one pair of clients until ``end``; ``connect`` opens other connections."""
    opened = connect or partial(connected, bootstrap)
    record = produce_request(create_topic(bootstrap, topic), 1, 100)
    offset = next_offset(bootstrap, record) + 1
    frame = frame_of(record, PRODUCE_VERSION)
    with opened() as producer, opened() as consumer:
        while time.perf_counter() < end:
            consumer.sendall(frame_of(fetch_from(topic, offset), FETCH_VERSION))
            started = time.perf_counter()
            producer.sendall(frame)
            answer = decoded(read_frame(producer), record, PRODUCE_VERSION)
            taken["produce"].append(time.perf_counter() - started)
            if answer.responses[0].partition_responses[0].error_code:
                raise RuntimeError("the neighbor's record is refused")
            read_frame(consumer)
            taken["deliver"].append(time.perf_counter() - started)
            offset += 1
            time.sleep(PAUSE_S)


def flushes(bootstrap: str, topic: str, end: float, taken: Waits) -> None:
    """The waits for records that the broker syncs before it answers."""
    name = create_topic(bootstrap, f"{topic}-flushed", 1, {"flush.messages": "1"})
    record = produce_request(name, 1, 100)
    frame = frame_of(record, PRODUCE_VERSION)
    with connected(bootstrap) as producer:
        while time.perf_counter() < end:
            started = time.perf_counter()
            producer.sendall(frame)
            answer = decoded(read_frame(producer), record, PRODUCE_VERSION)
            taken["flush"].append(time.perf_counter() - started)
            if answer.responses[0].partition_responses[0].error_code:
                raise RuntimeError("the neighbor's flushed record is refused")
            time.sleep(FLUSH_PAUSE_S)


def creations(bootstrap: str, topic: str, end: float, taken: Waits) -> None:
    """The waits for topics to be created."""
    with connected(bootstrap) as client:
        while time.perf_counter() < end:
            name = f"{topic}-{time.time_ns()}"
            wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)
            started = time.perf_counter()
            client.sendall(frame_of(request, CREATE_VERSION))
            answer = decoded(read_frame(client), request, CREATE_VERSION)
            taken["create"].append(time.perf_counter() - started)
            if answer.topics[0].error_code:
                raise RuntimeError("the neighbor's topic can't be created")
            deletion = DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000)
            client.sendall(frame_of(deletion, DELETE_VERSION))
            read_frame(client)
            time.sleep(CREATE_PAUSE_S)


def waits(bootstrap: str, topic: str, seconds: float) -> Waits:
    """The waits of all clients for a while; raises the first error of one of them."""
    taken: Waits = {"produce": [], "deliver": [], "flush": [], "create": []}
    end = time.perf_counter() + seconds
    errors: list[Exception] = []

    def run(measure: Callable[[str, str, float, Waits], None]) -> None:
        try:
            measure(bootstrap, topic, end, taken)
        except Exception as error:  # told by the main thread
            errors.append(error)

    others = [threading.Thread(target=run, args=(one,)) for one in (flushes, creations)]
    for other in others:
        other.start()
    run(deliveries)
    for other in others:
        other.join()
    if errors:
        raise errors[0]
    return taken


if __name__ == "__main__":
    print(json.dumps(waits(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
