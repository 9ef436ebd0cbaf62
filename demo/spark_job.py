"""The demo's Spark job: a stream that writes the delays of each carrier to Parquet.

It uses the unmodified connector, whose jars ``KWIRE_SPARK_JARS`` names (``make demo`` sets it).
"""

import os
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from demo.flights import Delays

SCHEMA = "sequence long, carrier string, number int, dep_delay double, arr_delay double"
MAX_RESTARTS = 5


class DelayJob:
    """A running query; ``finish`` waits until it has processed all records."""

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self._session = SparkSession.getActiveSession() or (
            SparkSession.builder.master("local[2]")
            .appName("kwire-demo")
            .config("spark.jars", os.environ["KWIRE_SPARK_JARS"])
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        self._session.sparkContext.setLogLevel("OFF")
        self._result = directory / "delays.parquet"
        self._checkpoint = directory / "checkpoint"
        self._bootstrap = bootstrap
        self._topic = topic
        self._query = self._start()

    def _start(self) -> StreamingQuery:
        records = (
            self._session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        flight = f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight")
        delays = (
            records.select(flight)
            .groupBy("flight.carrier")
            .agg(
                f.count("*").alias("flights"),
                f.count("flight.dep_delay").alias("dep_count"),
                f.coalesce(f.sum("flight.dep_delay"), f.lit(0.0)).alias("dep_sum"),
                f.count("flight.arr_delay").alias("arr_count"),
                f.coalesce(f.sum("flight.arr_delay"), f.lit(0.0)).alias("arr_sum"),
            )
        )
        writer = delays.writeStream.outputMode("complete").foreachBatch(self._write)
        return writer.option("checkpointLocation", str(self._checkpoint)).start()

    def _write(self, delays: DataFrame, batch_id: int) -> None:
        delays.coalesce(1).write.mode("overwrite").parquet(str(self._result))

    def finish(self) -> dict[str, Delays]:
        """Wait until all records are processed; returns the delays of each carrier from Parquet.

        If the broker's crash has ended the query, it is restarted from its checkpoint.
        """
        for _ in range(MAX_RESTARTS):
            try:
                self._query.processAllAvailable()
                break
            except StreamingQueryException:
                self._query = self._start()
        self._query.stop()
        rows = self._session.read.parquet(str(self._result)).collect()
        return {row.carrier: Delays(*row[1:]) for row in rows}
