"""``python -m bench.pipelines_job BOOTSTRAP TOPIC DIRECTORY ROUNDS``, in a lane's environment.

Every job reads the whole topic and writes it as a table: once as a pipeline of kwire, once as the
few lines of Structured Streaming that one would write by hand. All jobs share one session, so Java
is equally warm and Spark's settings are the same. The first round warms up. Each job prints a line
of JSON: table, way, round, rows, seconds, and the processor time of Java.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.usage import cpu_seconds
from kwire.spark.pipeline import Pipeline
from kwire.spark.sinks.delta import SPARK_SETTINGS

SCHEMA = (
    "id long, customer string, amount double, country string, placed timestamp, "
    "lines array<struct<sku: string, count: int>>, note string"
)
BATCH = 250_000
PIPELINE, BY_HAND = "pipeline", "by hand"
WAYS = (PIPELINE, BY_HAND)


class Table(NamedTuple):
    """What is written: a format, and whether rows say from which offset they come."""

    name: str
    format: str
    has_place: bool


TABLES = (
    Table("JSON to Parquet", "parquet", False),
    Table("JSON to Delta", "delta", True),
)


def main() -> None:
    """Run all jobs, the two ways in turn."""
    bootstrap, topic, directory, rounds = sys.argv[1:]
    spark = session()
    java: Any = spark._jvm
    pid = java.java.lang.ProcessHandle.current().pid()
    for number in range(int(rounds) + 1):
        for table in TABLES:
            for way in WAYS if number % 2 else reversed(WAYS):
                target = Path(directory) / f"{table.format}-{way.replace(' ', '-')}-{number}"
                run = run_pipeline if way == PIPELINE else run_by_hand
                started_s, cpu_s = time.perf_counter(), cpu_seconds(pid)
                run(spark, table, (bootstrap, topic), target)
                seconds, cpu_s = time.perf_counter() - started_s, cpu_seconds(pid) - cpu_s
                rows = spark.read.format(table.format).load(str(target / "table")).count()
                found: dict[str, object] = {
                    "table": table.name,
                    "way": way,
                    "round": number,
                    "rows": rows,
                }
                found |= {"seconds": seconds, "cpu_s": cpu_s}
                print(json.dumps(found), flush=True)
    spark.stop()


def session() -> SparkSession:
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
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    for name, value in SPARK_SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run_pipeline(
    spark: SparkSession, table: Table, source: tuple[str, str], directory: Path
) -> None:
    """The job as a pipeline."""
    bootstrap, topic = source
    Pipeline(
        {
            "name": directory.name,
            "checkpoint": str(directory / "checkpoint"),
            "trigger": "once",
            "source": {
                "bootstrap_servers": bootstrap,
                "topics": [topic],
                "max_offsets_per_trigger": BATCH,
            },
            "decode": {"format": "json", "schema": SCHEMA},
            "sink": {"kind": table.format, "path": str(directory / "table")},
        },
        spark=spark,
    ).run()


def run_by_hand(
    spark: SparkSession, table: Table, source: tuple[str, str], directory: Path
) -> None:
    """The job as one writes it by hand."""
    bootstrap, topic = source
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH)
        .load()
    )
    query = (
        rows_of(records, table)
        .writeStream.format(table.format)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "table"))
    )
    query.awaitTermination()


def rows_of(records: DataFrame, table: Table) -> DataFrame:
    """The columns of the values; in a table also each row's place, as a pipeline's table has it."""
    place = ["topic AS _topic", "partition AS _partition", "offset AS _offset"]
    row = f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")
    if not table.has_place:
        return records.select(row).select("row.*")
    return records.select(row, "topic", "partition", "offset").selectExpr("row.*", *place)


if __name__ == "__main__":
    main()
