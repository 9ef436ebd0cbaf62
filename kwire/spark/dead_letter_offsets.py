"""The offsets of a pipeline's topics that became dead letters or went to retry topics.

Rules:

- Only dead letters of the newest topic of a name count. Dead letters of an earlier topic have that
  topic's id. A dead letter without an id was written by an earlier version, and belongs to the
  first topic.
- Several pipelines may share a topic or table of dead letters. Only the pipeline's own dead letters
  count, and those without a pipeline's name.
- A record that went to a retry topic comes back at another offset. The record in the retry topic
  names its old place. After that record has expired, the mark about its return names the place.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire.spark.comparison import Partition, claims_of
from kwire.spark.dead_letters import PIPELINE, SOURCE, TOPIC_ID, header_text, retry_topic
from kwire.spark.incarnations import Incarnations
from kwire.spark.offset_runs import OffsetRuns, union
from kwire.spark.rows import OFFSET, PARTITION, TOPIC
from kwire.spark.settings import DeadLetters, PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kwire.client.cluster import Cluster
    from kwire.client.leaders import TopicPartition
    from kwire.record.records import Record

_ID = "topic_id"
_PIPELINE = "pipeline"
_EARLIER = -1
"""The incarnation of dead letters whose topic has another id now."""


def dead_letter_offsets(
    spark: "SparkSession", settings: PipelineSettings, topics: Incarnations
) -> Mapping[Partition, OffsetRuns]:
    """The offsets whose records are dead letters or were retried; RuntimeError."""
    given = settings.dead_letters
    if given is None:
        return {}
    rows = _of_topic(spark, settings) if given.topic else _of_table(spark, given)
    found = _newest(_of_pipeline(rows, settings.name), topics)
    if given.retry_delays_s:
        for place, offsets in _retried(settings, given, topics).items():
            found[place] = union([found.get(place, OffsetRuns()), offsets])[0]
    return found


def _newest(rows: "DataFrame", topics: Incarnations) -> dict[Partition, OffsetRuns]:
    from pyspark.sql import functions as f

    from kwire.spark.column_names import INCARNATION
    from kwire.spark.sinks.table_rows import held_in

    numbers = topics.all()
    number = f.when(f.coalesce(_ID, f.lit("")) == "", f.lit(0))
    for name, id_ in topics.ids().items():
        number = number.when((f.col(TOPIC) == name) & (f.col(_ID) == id_), f.lit(numbers[name]))
    # Without the file of topics, it isn't known which topic is the newest.
    number = number.otherwise(f.lit(_EARLIER if numbers else 0))
    held = held_in(rows.distinct().withColumn(INCARNATION, number))
    return {place: claim.covered for place, claim in claims_of(held, numbers).items()}


def _of_pipeline(rows: "DataFrame", name: str) -> "DataFrame":
    from pyspark.sql import functions as f

    is_own = f.coalesce(f.col(_PIPELINE), f.lit("")).isin("", name)
    # A record of another program may have any header.
    return rows.where(is_own).drop(_PIPELINE).dropna(subset=[TOPIC, PARTITION, OFFSET])


def _of_table(spark: "SparkSession", given: DeadLetters) -> "DataFrame":
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    from kwire.spark.sinks.table_rows import is_missing

    try:
        # Files of earlier versions lack the topic's id.
        table = spark.read.format(given.kind).option("mergeSchema", "true").load(given.path)
    except AnalysisException as error:
        if not is_missing(error):
            raise
        # No dead letter has been written yet.
        table = spark.createDataFrame([], "topic string, partition int, offset long")
    for one in {_ID, _PIPELINE}.difference(table.columns):
        table = table.withColumn(one, f.lit(None).cast("string"))
    named = {"topic": TOPIC, "partition": PARTITION, "offset": OFFSET}
    own = (table[old].alias(new) for old, new in named.items())
    return table.select(*own, _ID, _PIPELINE)


def _of_topic(spark: "SparkSession", settings: PipelineSettings) -> "DataFrame":
    from pyspark.sql import functions as f

    from kwire.spark.reading_ranges import read_topic

    assert settings.dead_letters is not None
    records = read_topic(spark, settings.source, settings.dead_letters.topic)
    headers = f.col("headers")
    place = f.split(header_text(headers, SOURCE), "/")
    return records.select(
        f.try_element_at(place, f.lit(1)).alias(TOPIC),
        f.try_element_at(place, f.lit(2)).try_cast("int").alias(PARTITION),
        f.try_element_at(place, f.lit(3)).try_cast("long").alias(OFFSET),
        header_text(headers, TOPIC_ID).alias(_ID),
        header_text(headers, PIPELINE).alias(_PIPELINE),
    )


def _retried(
    settings: PipelineSettings, given: DeadLetters, topics: Incarnations
) -> dict[Partition, OffsetRuns]:
    """The places of all records that went to a retry topic, as far as they are still known."""
    from kwire.client.moving import marked, read_if_there
    from kwire.spark.broker_offsets import ask_broker
    from kwire.spark.retries import header_of, marks_topic

    found: dict[Partition, set[int]] = {}
    ids, numbers = topics.ids(), topics.all()

    def take(name: str) -> None:
        place, _, id_ = name.partition("@")
        topic, partition, offset = [*place.split("/"), "", ""][:3]
        is_newest = id_ == ids.get(topic, id_) if id_ else not numbers.get(topic)
        if is_newest and partition.isdigit() and offset.isdigit():
            found.setdefault((topic, int(partition)), set()).add(int(offset))

    def take_record(_: "TopicPartition", record: "Record") -> None:
        place, id_ = (header_of(record.headers, one) for one in (SOURCE, TOPIC_ID))
        take(f"{place}@{id_}")

    async def read(cluster: "Cluster") -> None:
        for topic in settings.source.topics:
            for attempt in range(1, len(given.retry_delays_s) + 1):
                await read_if_there(
                    cluster, retry_topic(settings.name, topic, attempt), take_record
                )
        for mark in await marked(cluster, marks_topic(settings.name)):
            take(mark.rpartition("#")[0])

    ask_broker(settings.source, read)
    return {
        place: OffsetRuns((one, one + 1) for one in sorted(offsets))
        for place, offsets in found.items()
    }
