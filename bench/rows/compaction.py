"""Rows of compaction: its speed, and how much it slows producers down.

A gigabyte of records of 1,000 bytes with 100,000 keys is written to a topic that is never dirty
enough for compaction. Then single records are produced to another topic. The first measurement is
without compaction. After that the first topic's settings allow compaction, and measurements are
repeated until it is done.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor

from bench.load import ask, frame_of
from bench.rows.common import (
    PRODUCE_VERSION,
    Measured,
    Row,
    Running,
    create_topic,
    delete_topic,
    measured,
    next_offset,
    produce_request,
)
from bench.usage import MB
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.record.records import BatchBuilder

NAME = "beside compaction of 1 GB"
GIGABYTE = 1000 * MB
KEYS = 100_000
RECORDS = 500
VALUE_BYTES = 1000
TIME_LIMIT_S = 600
LOOK_S = 0.05
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1.0",
    "segment.bytes": str(64 * MB),
}


def alter(bootstrap: str, kind: int, name: str, setting: str, value: str) -> None:
    """Set one config."""
    config = AlterableConfig(name=setting, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    [answer] = ask(bootstrap, IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    if answer.error_code:
        raise RuntimeError(f"{setting} can't be set: {answer.error_message}")


def keyed_request(topic: str, chance: random.Random) -> ProduceRequest:
    """A batch of records with random keys."""
    builder = BatchBuilder()
    now_ms = int(time.time() * 1000)
    for _ in range(RECORDS):
        builder.add(now_ms, b"key-%06d" % chance.randrange(KEYS), chance.randbytes(VALUE_BYTES))
    data = PartitionProduceData(index=0, records=bytes(builder.build()))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def size_bytes(bootstrap: str, topic: str) -> int:
    """The size of a topic's only partition."""
    wanted = DescribableLogDirTopic(topic=topic, partitions=[0])
    [directory] = ask(bootstrap, DescribeLogDirsRequest(topics=[wanted]), 2).results
    return int(directory.topics[0].partitions[0].partition_size)


def fill(bootstrap: str, topic: str) -> int:
    """Write the gigabyte; returns the topic's size."""
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in SETTINGS.items()]
    new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=configs)
    ask(bootstrap, CreateTopicsRequest(topics=[new]), 5)
    chance = random.Random(1)
    requests = [keyed_request(topic, chance) for _ in range(200)]
    written = 0
    while written < GIGABYTE:
        next_offset(bootstrap, requests[written // (RECORDS * VALUE_BYTES) % len(requests)])
        written += RECORDS * VALUE_BYTES
    return size_bytes(bootstrap, topic)


def seconds_until_small(bootstrap: str, topic: str, most_bytes: int) -> float:
    """Seconds until a topic's only partition is no larger than ``most_bytes``."""
    began_s = time.monotonic()
    while size_bytes(bootstrap, topic) > most_bytes:
        if time.monotonic() - began_s > TIME_LIMIT_S:
            raise RuntimeError(f"a gigabyte isn't compacted after {TIME_LIMIT_S} seconds")
        time.sleep(LOOK_S)
    return time.monotonic() - began_s


def compaction_load(running: Running) -> Measured:
    """Produce during the compaction; also stores the load without it, and compaction's rate."""
    if NAME in running.runs:
        return running.runs[NAME]
    bootstrap = running.broker.bootstrap
    [broker] = ask(bootstrap, MetadataRequest(topics=[]), 9).brokers
    alter(bootstrap, BROKER_RESOURCE, str(broker.node_id), "log.cleaner.backoff.ms", "100")
    large = f"bench-large-{time.monotonic_ns()}"
    full_bytes = fill(bootstrap, large)
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    request = produce_request(topic, 1, 100)
    first = next_offset(bootstrap, request)
    frame = frame_of(request, PRODUCE_VERSION)
    before = measured(running, f"{NAME}: without", frame, 1, 1)
    alter(bootstrap, TOPIC_RESOURCE, large, "min.cleanable.dirty.ratio", "0.0")
    runs = []
    with ThreadPoolExecutor(1) as pool:
        taken_s = pool.submit(seconds_until_small, bootstrap, large, full_bytes // 4)
        while not taken_s.done():
            runs.append(measured(running, NAME, frame, 1, 1))
        running.notes[NAME] = full_bytes / taken_s.result() / MB
    acknowledged = sum(run.load.requests for run in (before, *runs))
    kept = next_offset(bootstrap, request) - first - 1
    if kept != acknowledged:
        raise RuntimeError(f"{acknowledged} records acknowledged, {kept} kept")
    runs.sort(key=lambda run: run.load.p99_us)
    running.runs[NAME] = runs[len(runs) // 2]
    delete_topic(bootstrap, large)
    delete_topic(bootstrap, topic)
    return running.runs[NAME]


def rate(running: Running) -> float:
    """Megabytes of log that were compacted per second, beside the load."""
    compaction_load(running)
    return running.notes[NAME]


def latency_rows(label: str, attribute: str) -> list[Row]:
    """Rows for a latency, and for its ratio to the latency without compaction."""

    def latency(running: Running) -> float:
        return float(getattr(compaction_load(running).load, attribute))

    def times(running: Running) -> float:
        without = running.runs[f"{NAME}: without"].load
        return latency(running) / max(float(getattr(without, attribute)), 1.0)

    return [
        Row(f"{NAME}: {label}", "µs", False, latency, NAME),
        Row(f"{NAME}: {label}, times that without", "x", False, times, NAME),
    ]


COMPACTION_ROWS: list[Row] = [
    *latency_rows("p50", "p50_us"),
    *latency_rows("p99", "p99_us"),
    Row(f"{NAME}: compacted", "MB/s", True, rate, NAME),
]
