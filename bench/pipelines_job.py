"""``python -m bench.pipelines_job ORDER``, in a lane's environment; ORDER is a line of JSON.

Every job reads a whole topic (``bench.pipelines_topics``) and writes it: once with kwire, once as
the few lines that one would write by hand with what Spark has. All jobs share one session, so Java
and the Python workers are equally warm and Spark's settings are the same. Small topics warm up.
Then there are rounds, the two ways in turn, for as long as a whole round fits into the time.

Each run prints a line of JSON: job, way, round, rows, seconds, and the processor time of the
driver, Java and all Python workers. The order's fields are those of ``Order``.
"""

import importlib
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from bench.pipelines import BY_HAND, DELTA, JOBS, KWIRE, PARQUET
from bench.pipelines_topics import AVRO, HEADER_BYTES, MESSAGE, MODULE, topic_of
from bench.usage import tree_cpu_seconds
from kwire.spark.pipeline import Pipeline
from kwire.spark.segments import register
from kwire.spark.sinks.delta import SPARK_SETTINGS

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = (
    "id long, customer string, amount double, country string, placed timestamp, "
    "lines array<struct<sku: string, count: int>>, note string"
)
BATCH = 250_000
WAYS = (KWIRE, BY_HAND)


class Order(NamedTuple):
    """What is to be measured."""

    bootstrap: str
    registry: str
    data: str
    """The broker's data directory, of which segments are read."""
    directory: str
    """It has the module of the Protobuf schema."""
    place: str
    """The directory for tables."""
    jobs: list[str]
    rounds: int
    seconds: float
    """After this time no round begins of which it isn't likely that it ends in time."""


class Run(NamedTuple):
    """One job's run, one way, with one topic."""

    spark: SparkSession
    order: Order
    topic: str
    target: Path

    @property
    def table(self) -> str:
        """The directory of what is written."""
        return str(self.target / "table")


Work = Callable[[Run], object]


def main() -> None:
    """Run all jobs, the two ways in turn."""
    order = Order(**json.loads(sys.argv[1]))
    started_s = time.monotonic()
    spark = session(order)
    jobs = list(order.jobs)
    for number in range(order.rounds + 1):
        round_s = time.monotonic()
        for name in order.jobs:
            for way in WAYS if number % 2 else reversed(WAYS):
                if name in jobs:
                    found = run_job(spark, order, name, way, number)
                    print(json.dumps(found), flush=True)
                    if "error" in found:
                        jobs.remove(name)
        round_s = time.monotonic() - round_s
        if number and time.monotonic() - started_s + round_s > order.seconds:
            break
    spark.stop()


def run_job(
    spark: SparkSession, order: Order, name: str, way: str, number: int
) -> dict[str, object]:
    """Run one job, and measure it; round 0 is that with the small topic.

    A job that fails has the field ``error``: the others go on.
    """
    job = JOBS[name]
    topic = topic_of(job.format, is_warm=not number)
    run = Run(spark, order, topic, Path(order.place) / f"{name}-{way[:2]}-{number}")
    work = WORKS[name][WAYS.index(way)]
    started_s, cpu_s = time.perf_counter(), tree_cpu_seconds(os.getpid())
    told: dict[str, object] = {"job": name, "way": way, "round": number}
    try:
        found = work(run)
        seconds, cpu_s = time.perf_counter() - started_s, tree_cpu_seconds(os.getpid()) - cpu_s
        if found is None:
            found = spark.read.format(job.table).load(run.table).count()
    except Exception as error:
        traceback.print_exc()
        return told | {"error": str(error).strip().partition("\n")[0]}
    return told | {"rows": found, "seconds": seconds, "cpu_s": cpu_s}


def session(order: Order) -> SparkSession:
    """The session of all jobs."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.jars", os.environ["KWIRE_SPARK_JARS"])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    if any(JOBS[name].table == DELTA for name in order.jobs):
        for name, value in SPARK_SETTINGS.items():
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.addPyFile(f"{order.directory}/{MODULE}.py")
    register(spark)
    return spark


def pipeline_of(decode: dict[str, str], kind: str) -> Work:
    """The job as a pipeline."""

    def work(run: Run) -> None:
        given = dict(decode)
        if "registry" in given:
            given["registry"] = run.order.registry
        settings = {
            "name": run.target.name,
            "checkpoint": str(run.target / "checkpoint"),
            "trigger": "once",
            "source": {
                "bootstrap_servers": run.order.bootstrap,
                "topics": [run.topic],
                "max_offsets_per_trigger": BATCH,
            },
            "decode": given,
            "sink": {"kind": kind, "path": run.table},
        }
        Pipeline(settings, spark=run.spark).run()

    return work


def stream_of(rows_of: Callable[[DataFrame], DataFrame], kind: str) -> Work:
    """The job as one writes it by hand."""

    def work(run: Run) -> None:
        records = (
            run.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", run.order.bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", run.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", BATCH)
            .load()
        )
        query = (
            rows_of(records)
            .writeStream.format(kind)
            .option("checkpointLocation", str(run.target / "checkpoint"))
            .trigger(availableNow=True)
            .start(run.table)
        )
        query.awaitTermination()

    return work


def json_rows(records: DataFrame) -> DataFrame:
    """The columns of JSON values."""
    row = f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")
    return records.select(row).select("row.*")


def json_rows_with_place(records: DataFrame) -> DataFrame:
    """The columns of JSON values, and each row's place, as the table of a pipeline has it."""
    place = ["topic AS _topic", "partition AS _partition", "offset AS _offset"]
    row = f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")
    return records.select(row, "topic", "partition", "offset").selectExpr("row.*", *place)


def avro_rows(records: DataFrame) -> DataFrame:
    """The columns of Avro values, by fastavro in Python workers."""

    def decoded(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import fastavro

        schema = fastavro.parse_schema(AVRO)
        for batch in batches:
            values = batch.column("value").to_pylist()
            yield arrow_of(
                [
                    fastavro.schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), schema)
                    for value in values
                ]
            )

    return records.select("value").mapInArrow(decoded, SCHEMA)


def protobuf_rows(records: DataFrame) -> DataFrame:
    """The columns of Protobuf values, by protoc's class in Python workers."""

    def decoded(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        kind = getattr(importlib.import_module(MODULE), MESSAGE)
        for batch in batches:
            rows = []
            for value in batch.column("value").to_pylist():
                order = kind.FromString(value[HEADER_BYTES + 1 :])
                rows.append(
                    {
                        "id": order.id,
                        "customer": order.customer,
                        "amount": order.amount,
                        "country": order.country,
                        "placed": order.placed.ToDatetime(),
                        "lines": [{"sku": one.sku, "count": one.count} for one in order.lines],
                        "note": order.note,
                    }
                )
            yield arrow_of(rows)

    return records.select("value").mapInArrow(decoded, SCHEMA)


def arrow_of(rows: list[Any]) -> "pa.RecordBatch":
    """Rows as a batch with the columns of ``SCHEMA``."""
    import pyarrow as pa

    line = pa.struct([("sku", pa.string()), ("count", pa.int32())])
    columns = {
        "id": pa.int64(),
        "customer": pa.string(),
        "amount": pa.float64(),
        "country": pa.string(),
        "placed": pa.timestamp("us", "UTC"),
        "lines": pa.list_(line),
        "note": pa.string(),
    }
    return pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(list(columns.items()))))


def from_avro_rows(records: DataFrame) -> DataFrame:
    """The columns of Avro values, by Spark's own module in Java, which no registry is asked for."""
    from pyspark.sql.avro.functions import from_avro

    value = f.expr(f"substring(value, {HEADER_BYTES + 1})")
    return records.select(from_avro(value, json.dumps(AVRO)).alias("row")).select("row.*")


def connector_records(run: Run) -> DataFrame:
    """The whole topic, through the broker."""
    reader = run.spark.read.format("kafka").option("subscribe", run.topic)
    return reader.option("kafka.bootstrap.servers", run.order.bootstrap).load()


def segments_records(run: Run) -> DataFrame:
    """The whole topic, from the broker's files."""
    return run.spark.read.format("kwire").option("topics", run.topic).load(run.order.data)


def scan_of(records_of: Callable[[Run], DataFrame]) -> Work:
    """Read all columns, and write nothing."""

    def work(run: Run) -> int:
        found = Observation()
        records = records_of(run).observe(found, f.count(f.lit(1)).alias("rows"))
        records.write.format("noop").mode("overwrite").save()
        return int(found.get["rows"])

    return work


def backfill_of(records_of: Callable[[Run], DataFrame]) -> Work:
    """Read all records, and write their rows as a table, in one batch."""

    def work(run: Run) -> None:
        json_rows(records_of(run)).write.format(PARQUET).save(run.table)

    return work


_JSON = {"format": "json", "schema": SCHEMA}
_AVRO = {"format": "avro", "registry": ""}
_PROTOBUF = {"format": "protobuf", "registry": "", "message": MESSAGE}
WORKS: dict[str, tuple[Work, Work]] = {
    "json": (pipeline_of(_JSON, PARQUET), stream_of(json_rows, PARQUET)),
    "delta": (pipeline_of(_JSON, DELTA), stream_of(json_rows_with_place, DELTA)),
    "avro": (pipeline_of(_AVRO, PARQUET), stream_of(avro_rows, PARQUET)),
    "from_avro": (pipeline_of(_AVRO, PARQUET), stream_of(from_avro_rows, PARQUET)),
    "protobuf": (pipeline_of(_PROTOBUF, PARQUET), stream_of(protobuf_rows, PARQUET)),
    "scan": (scan_of(segments_records), scan_of(connector_records)),
    "backfill": (backfill_of(segments_records), backfill_of(connector_records)),
}
"""The two ways of each of ``JOBS``: with kwire, and by hand."""


if __name__ == "__main__":
    main()
