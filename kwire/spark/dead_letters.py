"""Dead letters: records that can't be decoded, with their place, the error and the raw bytes.

Rules:

- A batch's dead letters are durable before the batch counts as done. A batch that runs again
  writes them again.
- Parquet: the file of a batch is written in another directory and then renamed. The new name is
  made of the checkpoint's id and the batch's id. So a batch that runs again replaces its own file,
  and the table has each dead letter once.
- Delta: the same two ids identify the transaction of a batch, and Delta commits it only once.
- A topic: a batch that runs again may write a dead letter twice. Each has the header
  ``kwire.source`` (TOPIC/PARTITION/OFFSET). Readers can skip a second copy by this header, and
  ``kwire pipeline replay`` does. A transaction would not help: Spark writes from many tasks, which
  can't share a transaction.
- A dead letter of a topic has the record's own key, value and headers, so that it can be sent
  again as it was. With the added headers a record may be larger than brokers accept. Then the dead
  letter lacks the value, and its header ``kwire.value_bytes`` says so: the value is still in the
  source topic, at the offset in ``kwire.source``. If key and headers alone are too large, the dead
  letter lacks them too.
- A topic that was deleted and created again has other records at the same offsets. So a dead letter
  also has its topic's id: ``kwire.topic_id``, or the column ``topic_id`` of a table.
- With ``retry_delays_s``, records whose error may pass go to a retry topic first (``retries``).
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.schemas.undecodable import REGISTRY
from kwire.spark import rows
from kwire.spark.batch import Batch
from kwire.spark.batch_work import DeadLetterSink
from kwire.spark.parquet_times import writer_of
from kwire.spark.settings import DeadLetters, Source, WrongSetting
from kwire.spark.sinks.delta import need_delta
from kwire.spark.sinks.files import COMPLETE, MARKS
from kwire.spark.storage import Storage, storage_at

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KINDS = ("parquet", "delta")

SOURCE = "kwire.source"
TOPIC_ID = "kwire.topic_id"
ERROR = "kwire.error"
PIPELINE = "kwire.pipeline"
TIMESTAMP_MS = "kwire.timestamp_ms"
FAILED_MS = "kwire.failed_ms"
VALUE_BYTES = "kwire.value_bytes"
ATTEMPT = "kwire.attempt"
DUE_MS = "kwire.due_ms"
PREFIX = "kwire."
"""The names of the headers that kwire adds begin with this. A dead letter keeps the headers of its
record, except those with such a name: they are from an earlier failure, and are replaced."""

MAX_RECORD_BYTES = 1_000_000
"""Key, value and headers; ``max.message.bytes`` of a topic is 1,048,588 unless it is set."""

MAX_RETRIED_BYTES = 900_000
"""Larger records become dead letters at once: a retry topic has to hold the record itself."""

_MAX_DELAYS = 20
_HEADER_TYPE = "array<struct<key: string, value: binary>>"


def check(settings: DeadLetters) -> None:
    """Raise WrongSetting for settings that can't work."""
    if bool(settings.topic) == bool(settings.path):
        raise WrongSetting("dead_letters.topic", settings.topic, "give either topic or path")
    if settings.path and settings.kind not in KINDS:
        raise WrongSetting("dead_letters.kind", settings.kind, f"it is one of {', '.join(KINDS)}")
    delays = settings.retry_delays_s
    if len(delays) > _MAX_DELAYS or any(one <= 0 for one in delays):
        allowed = f"up to {_MAX_DELAYS} delays in seconds, each more than 0"
        raise WrongSetting("dead_letters.retry_delays_s", delays, allowed)
    if list(delays) != sorted(delays):
        raise WrongSetting("dead_letters.retry_delays_s", delays, "the delays rise")


def open_dead_letters(
    settings: DeadLetters, source: Source, spark: "SparkSession"
) -> DeadLetterSink:
    """The sink for a pipeline's dead letters; WrongSetting."""
    check(settings)
    check_pattern(settings, source)
    sink: DeadLetterSink
    if settings.topic:
        sink = _Topic(settings.topic, source)
    elif settings.kind == "delta":
        need_delta(spark, settings.kind, "dead_letters.kind")
        sink = _DeltaTable(settings.path)
    else:
        sink = ParquetTable(spark, settings.path)
    return _WithRetries(sink, source, settings.retry_delays_s) if settings.retry_delays_s else sink


def check_pattern(settings: DeadLetters, source: Source) -> None:
    """A pattern must not match topics that the pipeline itself writes: it would read them."""
    if not source.pattern:
        return
    if settings.retry_delays_s:
        allowed = "retry topics need source.topics: a pattern may match the retry topics too"
        raise WrongSetting("dead_letters.retry_delays_s", settings.retry_delays_s, allowed)
    if settings.topic and re.fullmatch(source.pattern, settings.topic):
        allowed = f"source.pattern = {source.pattern!r} matches it: the pipeline would read it"
        raise WrongSetting("dead_letters.topic", settings.topic, allowed)


def retry_topic(pipeline: str, topic: str, attempt: int) -> str:
    """The topic that holds a pipeline's records of a topic before their attempt (1, 2, …).

    Each pipeline has its own: two that read a topic would send each record back twice.
    """
    return f"{pipeline}-{topic}-retry-{attempt}"


def name_of(place: str, topic_id: str) -> str:
    """The name of a dead letter, TOPIC/PARTITION/OFFSET@TOPIC-ID; no other dead letter has it.

    The id is left out where it isn't known: earlier versions of kwire wrote none.
    """
    return f"{place}@{topic_id}" if topic_id else place


def topic_id(batch: Batch) -> "Column":
    """The id of a row's topic, null where it isn't known."""
    from pyspark.sql import functions as f

    found = f.lit(None).cast("string")
    for topic, id_ in batch.topic_ids.items():
        found = f.when(f.col(rows.TOPIC) == topic, f.lit(id_)).otherwise(found)
    return found


def table_rows(dead: "DataFrame", batch: Batch) -> "DataFrame":
    """The dead letters of a batch with the columns that a table of dead letters has."""
    from pyspark.sql import functions as f

    return dead.select(
        f.col(rows.TOPIC).alias("topic"),
        f.col(rows.PARTITION).alias("partition"),
        f.col(rows.OFFSET).alias("offset"),
        f.col(rows.TIMESTAMP).alias("timestamp"),
        f.col(rows.KEY).cast("binary").alias("key"),
        f.col(rows.VALUE).alias("value"),
        f.col(rows.HEADERS).cast(_HEADER_TYPE).alias("headers"),
        f.col(rows.ERROR).alias("error"),
        f.current_timestamp().alias("time"),
        f.lit(batch.pipeline).alias("pipeline"),
        topic_id(batch).alias("topic_id"),
    )


class ParquetTable:
    """A directory with one file for each batch that had dead letters."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        self._spark = spark
        self._files = storage_at(path, spark)

    def write(self, dead: "DataFrame", batch: Batch) -> None:
        """Write the dead letters of a batch, in place of those of an earlier attempt."""
        name = f"dead-{batch.pipeline}-{batch.query_id}-{batch.batch_id:010}"
        aside = f"{self._files.aside()}/{name}"
        # Not coalesce: it would also put the decoding into a single task.
        table = table_rows(dead, batch).repartition(1)
        writer = writer_of(table).mode("overwrite").option(MARKS, "true")
        # The session may limit the rows of a file, and would then write several files.
        writer.option("maxRecordsPerFile", 0).parquet(aside)
        written = storage_at(aside, self._spark)
        part = only_part(written)
        if part:
            self._files.rename(f"{aside}/{part}", f"{name}.parquet")
        written.delete("")


def only_part(written: Storage) -> str:
    """The name of the file that Spark has written, "" for none; RuntimeError unless it is whole."""
    parts = [one for one in written.names() if one.endswith(".parquet")]
    # The mark is checked after the listing. If it is gone, another driver may have removed files.
    if len(parts) > 1 or COMPLETE not in written.names():
        raise RuntimeError(
            f"{written.url()} isn't one whole file of dead letters ({len(parts)} are there): does "
            "another driver run with the same checkpoint?"
        )
    return parts[0] if parts else ""


class _DeltaTable:
    """A Delta table; a batch is a transaction of its log."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, dead: "DataFrame", batch: Batch) -> None:
        writer = writer_of(table_rows(dead, batch)).format("delta").mode("append")
        # Tables of earlier versions lack the last column.
        writer = writer.option("mergeSchema", "true")
        writer = writer.option("txnAppId", f"kwire-dead-letters-{batch.query_id}")
        writer.option("txnVersion", batch.batch_id).save(self._path)


class _Topic:
    """A topic of the source's cluster."""

    def __init__(self, topic: str, source: Source) -> None:
        self._topic = topic
        self._source = source

    def write(self, dead: "DataFrame", batch: Batch) -> None:
        from pyspark.sql import functions as f

        topic = f.lit(self._topic)
        write_records(dead, batch, self._source, topic, lambda headers: headers)


class _WithRetries:
    """Sends records that may be decoded later to a retry topic, as often as there are delays."""

    def __init__(self, sink: DeadLetterSink, source: Source, delays_s: tuple[float, ...]) -> None:
        self._sink = sink
        self._source = source
        self._delays_ms = [int(one * 1000) for one in delays_s]

    def write(self, dead: "DataFrame", batch: Batch) -> None:
        from pyspark.sql import functions as f

        # Any producer may write this header. kwire wrote it only if it is a number from 0 on.
        given = header_text(f.col(rows.HEADERS), ATTEMPT).try_cast("int")
        attempt = f.greatest(f.coalesce(given, f.lit(0)), f.lit(0))
        size = (
            _length(f.col(rows.VALUE))
            + _length(f.col(rows.KEY).cast("binary"))
            + _bytes_of(f.coalesce(rows.HEADERS, f.array().cast(_HEADER_TYPE)))
        )
        is_retried = (
            f.col(rows.ERROR).startswith(REGISTRY)
            & (attempt < len(self._delays_ms))
            & (size <= MAX_RETRIED_BYTES)
        )
        self._sink.write(dead.where(~is_retried), batch)
        delays = f.array(*map(f.lit, self._delays_ms))
        due_ms = f.unix_millis(f.current_timestamp()) + f.try_element_at(delays, attempt + 1)
        write_records(
            dead.where(is_retried),
            batch,
            self._source,
            retry_topics(batch.pipeline, attempt + 1),
            lambda headers: f.concat(
                headers,
                f.array(one_header(ATTEMPT, attempt + 1), one_header(DUE_MS, due_ms)),
            ),
        )


def write_records(
    dead: "DataFrame",
    batch: Batch,
    source: Source,
    topic: "Column",
    more: "Callable[[Column], Column]",
) -> None:
    """Write dead letters to topics, with the record's own headers and those that kwire adds."""
    from pyspark.sql import functions as f

    own = f.coalesce(
        f.filter(f.col(rows.HEADERS), lambda one: ~one["key"].startswith(PREFIX)),
        f.array().cast(_HEADER_TYPE),
    )
    value, key = f.col(rows.VALUE), f.col(rows.KEY).cast("binary")
    place = f.concat_ws("/", rows.TOPIC, f.col(rows.PARTITION), f.col(rows.OFFSET))
    now_ms = f.unix_millis(f.current_timestamp())
    added = more(
        f.array(
            one_header(SOURCE, place),
            one_header(TOPIC_ID, topic_id(batch)),
            one_header(ERROR, f.col(rows.ERROR)),
            one_header(PIPELINE, f.lit(batch.pipeline)),
            one_header(TIMESTAMP_MS, f.unix_millis(f.col(rows.TIMESTAMP))),
            one_header(FAILED_MS, now_ms),
        )
    )
    headers = f.concat(own, added)
    without_value = _bytes_of(headers) + _length(key)
    is_bare = without_value > MAX_RECORD_BYTES
    is_large = without_value + _length(value) > MAX_RECORD_BYTES
    left = f.array(one_header(VALUE_BYTES, f.octet_length(value)))
    whole = (
        f.when(is_bare, f.concat(added, left))
        .when(is_large, f.concat(headers, left))
        .otherwise(headers)
    )
    records = dead.select(
        topic.alias("topic"),
        f.when(~is_bare, key).alias("key"),
        f.when(~is_large, value).alias("value"),
        whole.cast(_HEADER_TYPE).alias("headers"),
    )
    writer = writer_of(records).format("kafka").option("includeHeaders", "true")
    writer = writer.option("kafka.bootstrap.servers", source.bootstrap_servers)
    for name, setting in source.client.items():
        writer = writer.option(f"kafka.{name}", setting)
    writer.option("kafka.acks", "all").save()


def retry_topics(pipeline: str, attempt: "Column") -> "Column":
    """For each row, the name that ``retry_topic`` gives to its topic."""
    from pyspark.sql import functions as f

    return f.concat(f.lit(f"{pipeline}-"), f.col(rows.TOPIC), f.lit("-retry-"), attempt)


def _length(bytes_: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.coalesce(f.octet_length(bytes_), f.lit(0))


def _bytes_of(headers: "Column") -> "Column":
    """About how many bytes the headers take in a record."""
    from pyspark.sql import functions as f

    sizes = f.transform(headers, lambda one: f.octet_length(one["key"]) + _length(one["value"]) + 8)
    return f.aggregate(sizes, f.lit(0), lambda sum_, one: sum_ + one)


def one_header(name: str, value: "Column") -> "Column":
    """A header with a value as text."""
    from pyspark.sql import functions as f

    text = value.cast("string").cast("binary")
    return f.struct(f.lit(name).alias("key"), text.alias("value"))


def header_text(headers: "Column", name: str) -> "Column":
    """The last header of a name, as text; null if there is none."""
    from pyspark.sql import functions as f

    found = f.filter(headers, lambda one: one["key"] == name)
    return f.try_element_at(found, f.lit(-1))["value"].cast("string")
