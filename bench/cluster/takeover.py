"""A broker of three is killed, and another one takes over all that it led.

Rules:

- Every partition has three replicas. The replicas of those that the killed broker leads are in such
  an order that one other broker takes over all of them: a third of all partitions.
- A partition is led again when its new leader tells its latest offset: before, it doesn't know its
  high watermark. The time begins with the kill, so it includes finding out that the broker is dead.
- Meanwhile a client asks the broker that takes over again and again: its longest wait is the
  longest pause of that broker's event loop.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

from bench.cluster.measure import Number
from bench.load import ask, connected, decoded, frame_of, timed
from bench.usage import cpu_seconds, resident_mb
from compat_tests.cluster import KwireCluster
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.testing.waiting import wait_until

SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
ORDERS = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
"""The replicas of one partition after the other: the first leads, the next one takes over."""

KILLED, TAKES_OVER = 3, 1
PER_TOPIC = 500
LATEST = -1
LED_BAR_S, PAUSE_BAR_S = 2.0, 0.5
WAIT_S = 180.0
BETWEEN_LOOKS_S = 0.01


class Client(Thread):
    """Asks a broker again and again; ``longest_s`` is its longest wait since ``begin``."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.longest_s = 0.0
        self._address = bootstrap
        self._ends = Event()

    def run(self) -> None:
        """Ask until ``end``."""
        request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        with connected(self._address) as connection:
            while not self._ends.is_set():
                took_s, _ = timed(connection, frame_of(request, 3))
                self.longest_s = max(self.longest_s, took_s)
                time.sleep(BETWEEN_LOOKS_S)

    def end(self) -> None:
        """Ask no more."""
        self._ends.set()
        self.join()


def takeover(directory: Path, partitions: int) -> Iterator[Number]:
    """Kill a broker, and measure the one that takes over."""
    with KwireCluster(directory, SETTINGS) as cluster:
        heir = cluster.brokers[TAKES_OVER]
        topics = [f"t{number}" for number in range(partitions // PER_TOPIC)]
        for topic in topics:
            _create(heir.bootstrap, topic)
        wait_until(
            lambda: _all_in_sync(heir.bootstrap, topics),
            timeout_s=WAIT_S,
            what="all replicas in sync",
        )
        taken = [index for index in range(PER_TOPIC) if _order(index)[0] == KILLED]
        count = len(taken) * len(topics)
        client = Client(heir.bootstrap)
        client.start()
        used_s = cpu_seconds(heir.pid)
        began_s = time.perf_counter()
        cluster.brokers[KILLED].kill()
        _wait_until_led(heir.bootstrap, topics, taken)
        took_s = time.perf_counter() - began_s
        used_s = cpu_seconds(heir.pid) - used_s
        client.end()
        what = f"a broker that leads {count:,} of {partitions:,} partitions x 3 is killed"
        yield Number(f"{what}: until all are led again", took_s, "s", LED_BAR_S)
        name = "longest pause of the broker that takes them over"
        yield Number(name, client.longest_s, "s", PAUSE_BAR_S)
        yield Number("its processor time until then", used_s, "s", PAUSE_BAR_S)
        yield Number("its memory", resident_mb(heir.pid), "MB")
        log = cluster.log()
        assert "bug in" not in log, log[-5000:]


def _order(index: int) -> tuple[int, ...]:
    return ORDERS[index % len(ORDERS)]


def _create(bootstrap: str, topic: str) -> None:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(_order(index)))
        for index in range(PER_TOPIC)
    ]
    created = CreatableTopic(
        name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    request = CreateTopicsRequest(topics=[created], timeout_ms=60_000)
    [answer] = ask(bootstrap, request, 5).topics
    assert not answer.error_code, answer


def _all_in_sync(bootstrap: str, topics: list[str]) -> bool:
    for topic in topics:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        [told] = ask(bootstrap, request, 12).topics
        if any(len(row.isr_nodes) < len(ORDERS) for row in told.partitions):
            time.sleep(0.2)
            return False
    return True


def _wait_until_led(bootstrap: str, topics: list[str], taken: list[int]) -> None:
    """Look at one partition until it is led again, then at all of them."""
    give_up_s = time.monotonic() + WAIT_S
    few, every = _offsets(topics[-1:], taken[-1:]), _offsets(topics, taken)
    with connected(bootstrap) as connection:
        for request in (few, every):
            frame = frame_of(request, 7)
            while True:
                answer = decoded(timed(connection, frame)[1], request, 7)
                if not any(row.error_code for topic in answer.topics for row in topic.partitions):
                    break
                assert time.monotonic() < give_up_s, "partitions are without a leader"
                time.sleep(BETWEEN_LOOKS_S)


def _offsets(topics: list[str], indexes: list[int]) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes]
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[ListOffsetsTopic(name=name, partitions=wanted) for name in topics],
    )
