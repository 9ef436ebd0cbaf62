"""The kind ``topic``: rows become records of another topic, by transactions.

The reason for transactions: readers only need ``isolation.level=read_committed``, which every
client has. With a header for dropping duplicates, every reader would have to remember all offsets
that it has seen, forever.

How each row is there once: the rows of each source partition are written by one task, in one
transaction, which also commits the offset after them to a consumer group of the sink's own, as
Kafka Streams does. Before it writes, the task reads that offset. If it isn't below the end of the
batch's range, the rows are already written. The transactional id names the query and the source
partition, so that a task which was given up is fenced as soon as its successor starts.

Consequences:

- A batch isn't atomic: readers may see the rows of one source partition before those of another.
- Rows of a source partition keep their order. They need topic, partition and offset: a transform
  that aggregates can't have this sink.
- The group's offsets must live until the batch runs again: a pipeline that is down for longer than
  the broker's ``offsets.retention.minutes`` (7 days) may write its last batch twice.

A row's key is the column ``key`` or else ``_key``, its value the column ``value`` or else all other
columns as JSON, null for a tombstone. Timestamp and headers are those of the source's record.

Options: ``topic``; ``bootstrap_servers`` (those of the source); ``client``, a table with client
options as librdkafka names them (those of the source without it); ``headers`` (true).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.config.extras import needs
from kwire.spark.batch import Batch
from kwire.spark.rows import (
    HEADERS,
    HEADERS_TYPE,
    KEY,
    METADATA,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    TOPIC,
)
from kwire.spark.settings import SinkSettings, Source, WrongSetting
from kwire.spark.sink import Held, OffsetsUnknown
from kwire.spark.sinks.table_rows import check_options
from kwire.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ONLY_JAVA = ("sasl.jaas.config", "ssl.truststore", "ssl.keystore", "sasl.login", "sasl.client")
"""The beginnings of client options that librdkafka lacks, or that mean something else there."""

NEEDED = (TOPIC, PARTITION, OFFSET)


class TopicSink:
    """Writes rows to a topic."""

    def __init__(self, settings: SinkSettings, source: Source, pipeline_name: str) -> None:
        self._settings = settings
        self._source = source
        given = settings.options
        self._client: dict[str, str] = {
            **given.get("client", source.client),
            "bootstrap.servers": given.get("bootstrap_servers", source.bootstrap_servers),
        }

    def check(self) -> None:
        """WrongSetting without a topic, or for options that executors can't use."""
        known = {"topic": str, "bootstrap_servers": str, "client": dict, "headers": bool}
        check_options(self._settings, known)
        topic = self._settings.options.get("topic", "")
        if not topic:
            raise WrongSetting("sink.topic", topic, "the name of the topic to write to")
        if topic in self._source.topics and not self._settings.options.get("bootstrap_servers"):
            raise WrongSetting("sink.topic", topic, "a topic that the pipeline doesn't read itself")
        for name in self._client:
            if name.startswith(_ONLY_JAVA):
                raise WrongSetting(
                    "source.client",
                    name,
                    "the sink's client is librdkafka, which hasn't this option: give its own ones "
                    "in [sink] client, such as sasl.username and ssl.ca.location",
                )

    def open(self, spark: "SparkSession") -> None:
        """WrongSetting without the package confluent-kafka."""
        try:
            import confluent_kafka  # noqa: F401
        except ImportError:
            raise WrongSetting(
                "sink.kind",
                self._settings.kind,
                f"it {needs('spark', 'confluent-kafka')}; executors need it, too",
            ) from None

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """As ``KnowsBatches.has``: the rows of one source partition are enough."""
        places = [(one.topic, one.partition) for one in batch.ranges]
        committed = self.committed(batch.pipeline, batch.query_id, places)
        return any(
            committed.get((one.topic, one.partition), one.first) > one.first for one in batch.ranges
        )

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Write a batch; source partitions that have been written already are left out."""
        from kwire.spark.sinks.topic_task import Job, send

        missing = [one for one in NEEDED if one not in rows.columns]
        if missing:
            allowed = f"rows need {', '.join(missing)}: a transform has dropped it"
            raise WrongSetting("sink.kind", self._settings.kind, allowed)
        job = Job(
            group_of(batch),
            str(self._settings.options["topic"]),
            self._client,
            {(one.topic, one.partition): one.end for one in batch.ranges},
        )
        plain = _as_records(rows, bool(self._settings.options.get("headers", True)))
        tasks = min(len(batch.ranges), rows.sparkSession.sparkContext.defaultParallelism) or 1
        placed = plain.repartition(tasks, TOPIC, PARTITION).sortWithinPartitions(*NEEDED)
        # Only counts come back, which makes Spark run the tasks.
        placed.mapInArrow(partial(send, job=job), "sent long").collect()

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """OffsetsUnknown: records don't name their origin; ``verify`` uses ``committed``."""
        raise OffsetsUnknown("the records of a topic don't say which records they came from")

    def committed(
        self, pipeline: str, query_id: str, places: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """The offset after the rows of each source partition, if there is one.

        RuntimeError with one line if the target's cluster doesn't answer within a minute.
        """
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        from kwire.spark.sinks.topic_task import committed_offset, identity_of

        group = group_of(Batch(pipeline, query_id, 0, ()))
        target = str(self._settings.options["topic"])
        found = {}
        for place in places:
            identity = identity_of(group, *place)
            consumer = Consumer({**self._client, "group.id": identity})
            try:
                offset = committed_offset(consumer, TopicPartition(target, 0))
            except KafkaException as error:
                servers = self._client["bootstrap.servers"]
                raise RuntimeError(f"{servers}, group {identity}: {error.args[0].str()}") from error
            finally:
                consumer.close()
            if offset >= 0:
                found[place] = offset
        return found


def group_of(batch: Batch) -> str:
    """The beginning of the names of the consumer groups with the offsets of source partitions."""
    return f"kwire-topic-{batch.pipeline}-{batch.query_id}"


def _as_records(rows: "DataFrame", with_headers: bool) -> "DataFrame":
    """Columns of a record beside those of its place."""
    from pyspark.sql import functions as f

    def column(name: str, kind: str) -> Any:
        return f.col(quoted(name)) if name in rows.columns else f.lit(None).cast(kind)

    own = [one for one in rows.columns if one not in (*METADATA, "key", "value")]
    key = column("key" if "key" in rows.columns else KEY, "binary")
    value = column("value", "binary")
    if "value" not in rows.columns:
        value = f.to_json(f.struct(*map(quoted, own)), {"ignoreNullFields": "false"})
    is_dead = f.coalesce(column(TOMBSTONE, "boolean"), f.lit(False))
    headers = f.array().cast(HEADERS_TYPE)  # null would be slow, as ``in_workers`` says
    if with_headers:
        headers = f.coalesce(column(HEADERS, HEADERS_TYPE), headers)
    return rows.select(
        *NEEDED,
        _as_bytes(rows, key).alias("key"),
        f.when(~is_dead, _as_bytes(rows, value)).alias("value"),
        headers.alias("headers"),
        f.unix_millis(column(TIMESTAMP, "timestamp")).alias("time_ms"),
    )


def _as_bytes(rows: "DataFrame", column: Any) -> Any:
    """A text as UTF-8; bytes stay; other types become their text first."""
    from pyspark.sql import functions as f

    is_bytes = rows.select(column.alias("one")).schema["one"].dataType.typeName() == "binary"
    return column if is_bytes else f.encode(column.cast("string"), "UTF-8")
