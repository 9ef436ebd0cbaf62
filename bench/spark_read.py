"""``python -m bench.spark_read BOOTSTRAP TOPIC``, in the environment of a Spark lane.

The program reads a whole topic in one batch with the stock connector, twice. The first read warms
up the JVM. For the second read it prints one line of JSON: records, bytes of their values, seconds.
"""

import json
import os
import sys
import time

from pyspark.sql import SparkSession


def main() -> None:
    """Read and print."""
    bootstrap, topic = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.jars", os.environ["KWIRE_SPARK_JARS"])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    for _ in range(2):
        started = time.perf_counter()
        read = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        records = read.option("subscribe", topic).load()
        [row] = records.selectExpr("count(*) AS n", "sum(length(value)) AS size").collect()
        seconds = time.perf_counter() - started
    print(json.dumps({"records": row.n, "bytes": row.size, "seconds": seconds}))
    spark.stop()


if __name__ == "__main__":
    main()
