"""A well-behaved producer and consumer, which measure how long they wait beside other clients.

``python -m bench.neighbour HOST:PORT TOPIC SECONDS`` writes a record, waits until it is
acknowledged and until the consumer's long poll returns it, and repeats that ``PAUSE_S`` later. It
prints JSON: all waits in seconds, for the acknowledgement (``produce``) and for the record
(``deliver``).
"""

import json
import sys
import time

from bench.load import connected, decoded, frame_of, read_frame
from bench.rows.common import PRODUCE_VERSION, create_topic, next_offset, produce_request
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_VERSION = 11
PAUSE_S = 0.003
LONGEST_POLL_MS = 60_000


def fetch_from(topic: str, offset: int) -> FetchRequest:
    """A long poll for the record at ``offset``."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=LONGEST_POLL_MS,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def waits(bootstrap: str, topic: str, seconds: float) -> dict[str, list[float]]:
    """The waits of one pair of clients for a while."""
    record = produce_request(create_topic(bootstrap, topic), 1, 100)
    offset = next_offset(bootstrap, record) + 1
    frame = frame_of(record, PRODUCE_VERSION)
    taken: dict[str, list[float]] = {"produce": [], "deliver": []}
    end = time.perf_counter() + seconds
    with connected(bootstrap) as producer, connected(bootstrap) as consumer:
        while time.perf_counter() < end:
            consumer.sendall(frame_of(fetch_from(topic, offset), FETCH_VERSION))
            started = time.perf_counter()
            producer.sendall(frame)
            answer = decoded(read_frame(producer), record, PRODUCE_VERSION)
            taken["produce"].append(time.perf_counter() - started)
            if answer.responses[0].partition_responses[0].error_code:
                raise RuntimeError("the neighbour's record is refused")
            read_frame(consumer)
            taken["deliver"].append(time.perf_counter() - started)
            offset += 1
            time.sleep(PAUSE_S)
    return taken


if __name__ == "__main__":
    print(json.dumps(waits(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
