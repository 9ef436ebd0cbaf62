"""``python -m bench.segments_spark BOOTSTRAP DIRECTORY TOPIC ROUNDS``, in a Spark lane.

Each query is run with the stock connector and on the segments in turn: once to warm up, then
ROUNDS times. The program prints one line of JSON for each query: its name, and the seconds of both.
A query whose results differ stops the program. The last line says whether the hashes of all columns
agree.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kwire.spark.segments import register

HASH = (
    "count(*) AS n",
    "bit_xor(xxhash64(key, value, topic, partition, offset, timestamp, timestampType)) AS hash",
)
Read = Callable[..., DataFrame]


def main() -> None:
    """Measure and print."""
    bootstrap, directory, topic, rounds = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.jars", os.environ["KWIRE_SPARK_JARS"])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)

    def connector(**options: str) -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        return reader.option("subscribe", topic).options(**options).load()

    def segments(**options: str) -> DataFrame:
        return spark.read.format("kwire").options(topics=topic, **options).load(directory)

    for name, one, other in queries(connector, segments, topic):
        found: dict[str, list[float]] = {"connector": [], "segments": []}
        results = set()
        for number in range(int(rounds) + 1):
            for reader, query in (("connector", one), ("segments", other)):
                started = time.perf_counter()
                results.add(str(query()))
                if number:
                    found[reader].append(round(time.perf_counter() - started, 3))
        if len(results) != 1:
            raise SystemExit(f"{name}: the results differ: {results}")
        print(json.dumps({"query": name, **found}), flush=True)
    hashes = [read().selectExpr(*HASH).collect() for read in (connector, segments)]
    if hashes[0] != hashes[1]:
        raise SystemExit(f"the rows differ: {hashes}")
    print(json.dumps({"query": "hash", "records": hashes[0][0].n}), flush=True)
    spark.stop()


Query = Callable[[], Any]


def queries(connector: Read, segments: Read, topic: str) -> list[tuple[str, Query, Query]]:
    """Name, and what is measured: with the connector, and on the segments."""
    [row] = (
        connector()
        .selectExpr("max(offset) AS last", "min(timestamp) AS t0", "max(timestamp) AS t1")
        .collect()
    )
    first, end = row.last * 45 // 100, row.last * 50 // 100
    span = (row.t1 - row.t0) / 100
    since, until = row.t0 + span * 45, row.t0 + span * 50
    offsets = f"offset >= {first} AND offset < {end}"
    times = f"timestamp >= '{since}' AND timestamp < '{until}'"
    parts = sorted(r.partition for r in connector().select("partition").distinct().collect())
    named = {
        "startingOffsets": json.dumps({topic: dict.fromkeys(map(str, parts), first)}),
        "endingOffsets": json.dumps({topic: dict.fromkeys(map(str, parts), end)}),
    }

    def both(
        name: str, query: Callable[[DataFrame], Any], **options: Any
    ) -> tuple[str, Query, Query]:
        columns = options.pop("columns", {})
        return (
            name,
            lambda: query(connector(**options)),
            lambda: query(segments(**options, **columns)),
        )

    def scan(rows: DataFrame) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def group(rows: DataFrame) -> Any:
        counted = rows.groupBy("key").count()
        return counted.selectExpr("count(*)", "sum(count)", "max(count)").collect()

    def total(rows: DataFrame) -> Any:
        return rows.selectExpr("count(*)", "sum(length(value))").collect()

    return [
        both("full scan, all columns", scan),
        both("5 % of the offsets, WHERE", lambda rows: total(rows.where(offsets))),
        both("5 % of the offsets, options", total, **named),
        both("5 % of the time, WHERE", lambda rows: total(rows.where(times))),
        both("groupBy key, columns=key", group, columns={"columns": "key"}),
    ]


if __name__ == "__main__":
    main()
