"""Samples about topics, their partitions, and the data directories.

Topics with the most traffic have series of their own; the totals count every topic.
"""

from collections import Counter
from heapq import nsmallest
from typing import NamedTuple

from kwire.broker.broker import Broker
from kwire.broker.partition import Partition
from kwire.budget.slices import Slices
from kwire.metrics.samples import Sample, Samples

_METRICS = "kafka_server_brokertopicmetrics_"
_REPLICAS = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"


class _Traffic:
    """The sums over the partitions of a topic."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in", "partitions", "size_bytes")

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = self.size_bytes = 0
        self.partitions: list[Partition] = []

    def add(self, partition: Partition, size_bytes: int) -> None:
        """Add a partition."""
        self.messages_in += partition.messages_in
        self.bytes_in += partition.bytes_in
        self.bytes_out += partition.bytes_out
        self.size_bytes += size_bytes
        self.partitions.append(partition)


class _Place(NamedTuple):
    """The sums over the logs of a data directory."""

    sizes: Counter[str]
    counts: Counter[str]


async def gather_topics(broker: Broker, slices: Slices, samples: Samples) -> None:
    """Add the samples of topics, partitions and data directories."""
    topics: dict[str, _Traffic] = {}
    every = _Traffic()
    place = _Place(Counter(), Counter())
    producers = 0
    replication = Counter[str]()
    offline = len(broker.offline_partitions())
    for partition in list(broker.partitions()):
        await slices.give_way()
        size_bytes = partition.log.size_bytes
        topics.setdefault(partition.topic, _Traffic()).add(partition, size_bytes)
        every.add(partition, size_bytes)
        place.sizes[str(partition.log.health.path)] += size_bytes
        place.counts[str(partition.log.health.path)] += 1
        producers += len(partition.log.producers.producers)
        replication["underreplicatedpartitions"] += partition.is_under_replicated
        replication["underminisrpartitioncount"] += partition.isr_size < partition.min_isr
        replication["atminisrpartitioncount"] += partition.isr_size == partition.min_isr
        offline += partition.is_offline
    samples.put("kwire_producer_ids", producers)
    _replication(broker, replication, samples)
    _totals(broker, every, offline, samples)
    await _cluster(broker, offline, slices, samples)
    _directories(broker, place, samples)
    await _topics(broker, topics, slices, samples)


async def _topics(
    broker: Broker, topics: dict[str, _Traffic], slices: Slices, samples: Samples
) -> None:
    """Add the samples of the busiest topics and of their partitions."""
    most = broker.integer("kwire.metrics.max.topics")
    left = broker.integer("kwire.metrics.max.partitions")
    ranked = [(-_bytes(traffic), name) for name, traffic in topics.items()]
    left_out = 0
    for place, (_, name) in enumerate(_busiest(ranked, most)):
        await slices.give_way()
        partitions = topics[name].partitions
        if place >= most:
            left_out += len(partitions)
            continue
        _topic(name, topics[name], samples)
        for partition in partitions[:left]:
            await slices.give_way()
            _partition(partition, samples)
        left_out += max(0, len(partitions) - left)
        left = max(0, left - len(partitions))
    samples.put("kwire_metrics_left_out", max(0, len(topics) - most), "topics")
    samples.put("kwire_metrics_left_out", left_out, "partitions")


def _busiest(ranked: list[tuple[int, str]], most: int) -> list[tuple[int, str]]:
    """The first ``most`` topics in their order, then the others."""
    if len(ranked) <= most:
        return ranked
    first = nsmallest(most, ranked)
    chosen = set(first)
    return [*first, *(one for one in ranked if one not in chosen)]


def _bytes(traffic: _Traffic) -> int:
    return traffic.bytes_in + traffic.bytes_out


def _topic(name: str, traffic: _Traffic, samples: Samples) -> None:
    samples.put(f"{_METRICS}messagesin_total", traffic.messages_in, name)
    samples.put(f"{_METRICS}bytesin_total", traffic.bytes_in, name)
    samples.put(f"{_METRICS}bytesout_total", traffic.bytes_out, name)
    samples.put("kwire_topic_partitions", len(traffic.partitions), name)
    samples.put("kwire_topic_size_bytes", traffic.size_bytes, name)


def _partition(partition: Partition, samples: Samples) -> None:
    log, labels = partition.log, (partition.topic, str(partition.index))
    samples += (
        Sample("kafka_log_log_size", labels, log.size_bytes),
        Sample("kafka_log_log_numlogsegments", labels, len(log.segments)),
        Sample("kafka_log_log_logstartoffset", labels, log.log_start_offset),
        Sample("kafka_log_log_logendoffset", labels, log.log_end_offset),
    )


def _replication(broker: Broker, counted: Counter[str], samples: Samples) -> None:
    """Add how many partitions have followers out of sync, and how often that has changed."""
    for name in (
        "underreplicatedpartitions",
        "underminisrpartitioncount",
        "atminisrpartitioncount",
    ):
        samples.put(f"{_REPLICAS}{name}", counted[name])
    updates = vars(broker).get(
        "alter_partition_manager"
    )  # once it has led a partition with followers
    samples.put(f"{_REPLICAS}isrshrinks_total", updates.shrinks if updates else 0)
    samples.put(f"{_REPLICAS}isrexpands_total", updates.expands if updates else 0)
    samples.put(f"{_REPLICAS}failedisrupdates_total", updates.failures if updates else 0)


def _totals(broker: Broker, every: _Traffic, offline: int, samples: Samples) -> None:
    gone, served = broker.gone, len(every.partitions)
    samples.put(f"{_METRICS}messagesin_total", gone.messages_in + every.messages_in)
    samples.put(f"{_METRICS}bytesin_total", gone.bytes_in + every.bytes_in)
    samples.put(f"{_METRICS}bytesout_total", gone.bytes_out + every.bytes_out)
    samples.put(f"{_REPLICAS}partitioncount", len(broker.hosted()))
    samples.put(f"{_REPLICAS}leadercount", served)
    samples.put(f"{_REPLICAS}offlinereplicacount", offline)


async def _cluster(broker: Broker, offline: int, slices: Slices, samples: Samples) -> None:
    topics = broker.image.topics_by_name
    partitions = 0
    for topic in topics.values():
        await slices.give_way()
        partitions += len(topic.partitions)
    samples.put(f"{_CONTROLLER}activecontrollercount", 1)
    samples.put(f"{_CONTROLLER}offlinepartitionscount", offline)
    samples.put(f"{_CONTROLLER}globaltopiccount", len(topics))
    samples.put(f"{_CONTROLLER}globalpartitioncount", partitions)


def _directories(broker: Broker, place: _Place, samples: Samples) -> None:
    failures = broker.log_manager.failures
    for path in broker.log_manager.directories:
        directory = str(path)
        samples.put("kwire_log_directory_online", path not in failures, directory)
        samples.put("kwire_log_directory_size_bytes", place.sizes[directory], directory)
        samples.put("kwire_log_directory_partitions", place.counts[directory], directory)
