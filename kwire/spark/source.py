"""The topics of a pipeline as a streaming DataFrame, through Spark's own connector ``kafka``.

Rules:

- The connector doesn't fail on data loss. The pipeline itself detects it, by topic ids and log
  start offsets, which the connector doesn't see (``kwire.spark.lost_records``).
- A task whose broker doesn't answer gives up after ``RESTART_S``, as the pipeline's own client
  does, and not after the two minutes that are Spark's default. Spark then tries the task again, or
  the batch fails.
- The connector asks for the beginning and the end of a partition after each poll, over the
  connection of its fetches. So a poll takes all records of a fetch, not Kafka's 500. And a fetch
  without records returns at once. By Kafka's defaults, the fetch at the end of the log would wait
  half a second, and the task's request behind it, too. A range never ends after the log, so there
  is nothing to wait for. The pipeline's client options override both.
- The connector's pattern may match a part of a topic's name; a pipeline's pattern has to match the
  whole name.
- A task's consumer reads one partition, and knows all partitions of its topic: about 500 bytes
  each. The connector keeps up to 64 idle consumers for later batches. Of topics with thousands of
  partitions it keeps fewer. This counts where tasks run in the driver (``local``); executors get
  their settings before anybody knows the topics.
- The connector limits a batch by offsets only. A limit in bytes is turned into offsets with the
  average size of an offset: bytes on the broker's disk by offsets between start and end of the log.
  So bytes are as the broker holds them, compressed if the producers compress. Where sizes vary
  within a partition, a batch may be larger or smaller by as much; on a compacted topic, whose
  offsets have gaps, the records of a batch vary likewise.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kwire.spark.broker_view import RESTART_S, BrokerView
from kwire.spark.checkpoint import Offsets
from kwire.spark.settings import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONSUMER = {"kafka.fetch.min.bytes": "0", "kafka.max.poll.records": "5000"}
"""How tasks read: a fetch has up to 1 MiB of a partition, and a poll returns at most one fetch."""


CACHED = "spark.kafka.consumer.cache.capacity"
_MOST_CACHED = 64
"""Spark's default."""
_LEAST_CACHED = 8
_PARTITIONS_KNOWN = 128_000
"""How many partitions idle consumers may know together: some 64 MB."""


def idle_consumers(partitions: Iterable[int]) -> int:
    """How many idle consumers the connector may keep for topics with these many partitions."""
    found = _PARTITIONS_KNOWN // max(*partitions, 1, 1)
    return min(max(found, _LEAST_CACHED), _MOST_CACHED)


def bound_consumers(spark: "SparkSession", partitions: Iterable[int]) -> None:
    """Let the connector keep few consumers in this process, unless its settings say how many.

    It looks when the first task of the process reads.
    """
    if spark.sparkContext.master.startswith("local"):
        # The same object as SparkEnv's, which Python can't reach in Spark 4.1.
        context: Any = spark.sparkContext._jsc
        context.sc().conf().setIfMissing(CACHED, str(idle_consumers(partitions)))


def read_stream(spark: "SparkSession", source: Source, options: Mapping[str, str]) -> "DataFrame":
    """The stream of records: the connector's columns, with headers."""
    reader = spark.readStream.format("kafka")
    return reader.options(**connector_options(source) | dict(options)).load()


def connector_options(source: Source) -> dict[str, str]:
    """The connector's options for a source."""
    options = consumer_options(source) | {
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": str(int(RESTART_S * 1000)),
    }
    if source.pattern:
        options["subscribePattern"] = rf"\A(?:{source.pattern})\z"
    else:
        options["subscribe"] = ",".join(source.topics)
    if source.starting in ("earliest", "latest") or source.starting.lstrip().startswith("{"):
        options["startingOffsets"] = source.starting
    else:
        at = datetime.fromisoformat(source.starting)
        at_ms = int((at if at.tzinfo else at.astimezone()).timestamp() * 1000)
        options["startingTimestamp"] = str(at_ms)
        # A partition without a record at or after that time begins with the next one it gets.
        options["startingOffsetsByTimestampStrategy"] = "latest"
    return options


def consumer_options(source: Source) -> dict[str, str]:
    """The connector's options, for streams and for single reads."""
    given = {f"kafka.{name}": value for name, value in source.client.items()}
    return {
        **_CONSUMER,
        **given,
        "kafka.bootstrap.servers": source.bootstrap_servers,
        "kafka.isolation.level": source.isolation_level,
        "includeHeaders": "true",
    }


def max_offsets(source: Source, sizes: Mapping[tuple[str, int], int], spans: Offsets) -> int:
    """How many offsets a batch may have; 0 if there is no limit.

    ``spans`` are the offsets between start and end of each partition's log.
    """
    limits = [source.max_offsets_per_trigger] if source.max_offsets_per_trigger else []
    offsets = sum(spans.values())
    size_bytes = sum(sizes.get(one, 0) for one in spans)
    if source.max_bytes_per_trigger and offsets and size_bytes:
        limits.append(max(source.max_bytes_per_trigger * offsets // size_bytes, 1))
    return min(limits, default=0)


def current_max_offsets(source: Source, view: BrokerView, partitions: Offsets) -> int:
    """The present limit; a limit in bytes is converted with the broker's sizes."""
    if not source.max_bytes_per_trigger:
        return source.max_offsets_per_trigger
    starts, ends = view.starts(partitions), view.ends(partitions)
    spans = {one: ends[one] - starts[one] for one in partitions}
    return max_offsets(source, view.sizes(), spans)
