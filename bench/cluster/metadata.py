"""Three brokers on an etcd of this machine: how soon changes are seen, memory, a start."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

from bench.cluster.measure import Number, percentile
from bench.load import ask, connected, decoded, frame_of, timed
from bench.rows.common import create_topic
from bench.usage import proportional_mb, resident_mb
from compat_tests.cluster import KwireCluster
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA_VERSION, CREATE_VERSION = 12, 5
WARM_UP = 20
SEEN_BAR_MS, MEMORY_BAR_MB, START_BAR_S = 20, 30, 5
PARTITIONS_PER_TOPIC = 1000
GIVE_UP_S = 60
BETWEEN_LOOKS_S = 0.0005


def small(directory: Path, changes: int) -> Iterator[Number]:
    """A new cluster: how soon its brokers see changes, and their memory."""
    with KwireCluster(directory) as cluster:
        yield from _memory(cluster)
        yield from _seen(cluster, changes)


def large(directory: Path, partitions: int) -> Iterator[Number]:
    """A cluster with many partitions: their creation, and the start of a broker."""
    with KwireCluster(directory) as cluster:
        first, *_, last = cluster.brokers.values()
        started = time.perf_counter()
        topics = [f"t{number}" for number in range(partitions // PARTITIONS_PER_TOPIC)]
        for topic in topics:
            create_topic(first.bootstrap, topic, PARTITIONS_PER_TOPIC)
        _wait_until_led(first.bootstrap, topics)
        yield Number(f"{partitions:,} partitions are created", time.perf_counter() - started, "s")
        last.stop()
        started = time.perf_counter()
        last.restart()
        yield Number(
            f"start of a broker that leads a third of {partitions:,} partitions",
            time.perf_counter() - started,
            "s",
            START_BAR_S,
        )
        _wait_until_led(first.bootstrap, topics)
        took = time.perf_counter() - started
        yield Number("until another broker shows that it leads them", took, "s", START_BAR_S)
        yield Number("its memory", resident_mb(last.pid), "MB")


def _memory(cluster: KwireCluster) -> Iterator[Number]:
    added = [broker.pid for broker in cluster.brokers.values()][1:]
    what = "memory of each further broker with etcd, idle"
    yield Number(f"{what}, resident", max(map(resident_mb, added)), "MB")
    # The pages that brokers share are counted once: this is what a further broker adds.
    yield Number(f"{what}, added", max(map(proportional_mb, added)), "MB", MEMORY_BAR_MB)


def _seen(cluster: KwireCluster, changes: int) -> Iterator[Number]:
    """The brokers take turns to create topics, and all are asked until they show the topic."""
    connections = [connected(broker.bootstrap) for broker in cluster.brokers.values()]
    answered, seen = [], []
    for number in range(WARM_UP + changes):
        name = f"seen-{number}"
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        started = time.perf_counter()
        _, answer = timed(connections[number % len(connections)], frame_of(request, CREATE_VERSION))
        now = time.perf_counter()
        [created] = decoded(answer, request, CREATE_VERSION).topics
        assert created.error_code == 0, created.error_message
        for connection in connections:
            _wait_for(connection, name)
        if number >= WARM_UP:
            answered.append((now - started) * 1000)
            seen.append((time.perf_counter() - started) * 1000)
    for connection in connections:
        connection.close()
    yield Number("a topic is created, p50", percentile(answered, 0.5), "ms")
    yield Number("a topic is created and all brokers show it, p50", percentile(seen, 0.5), "ms")
    yield Number(
        "a topic is created and all brokers show it, p99", percentile(seen, 0.99), "ms", SEEN_BAR_MS
    )


def _wait_for(connection: socket.socket, name: str) -> None:
    """Ask one broker until it knows the topic; in between the processors are the brokers'."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    frame = frame_of(request, METADATA_VERSION)
    give_up_at = time.monotonic() + GIVE_UP_S
    while decoded(timed(connection, frame)[1], request, METADATA_VERSION).topics[0].error_code:
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"{name} isn't seen by every broker")
        time.sleep(BETWEEN_LOOKS_S)


def _wait_until_led(bootstrap: str, topics: list[str]) -> None:
    """Wait until a broker shows a leader for each partition."""
    wanted = [MetadataRequestTopic(name=topic) for topic in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    give_up_at = time.monotonic() + GIVE_UP_S
    while True:
        answer = ask(bootstrap, request, METADATA_VERSION)
        if all(p.leader_id >= 0 for topic in answer.topics for p in topic.partitions):
            return
        if time.monotonic() > give_up_at:
            raise RuntimeError("partitions are without a leader")
        time.sleep(0.02)
