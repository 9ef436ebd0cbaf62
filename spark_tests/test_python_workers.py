"""The Python workers of these tests begin quickly, so that a busy machine doesn't fail them."""

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kwire.spark.decode import decode
from kwire.spark.settings import Decode
from spark_tests.decoding import records_of

pytestmark = pytest.mark.both_lanes


def test_workers_have_the_pyspark_of_the_lane(spark: SparkSession) -> None:
    """Not Spark's archive of sources, which each start would compile."""
    [(path, python)] = spark.range(1).rdd.map(lambda _: (sys.path, sys.executable)).collect()
    assert not [one for one in path if Path(one).is_file()]
    assert python == sys.executable


def test_headers_pass_through_workers(spark: SparkSession) -> None:
    """Those that aren't there stay null."""
    schema = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
    given = records_of(spark, [b"\x02", None, b"\xff"])
    settings = Decode("avro", options={"schema": schema})
    [one, *_] = wanted = [row["headers"] for row in given.collect()]
    assert [row["_headers"] for row in decode(given, settings).collect()] == wanted
    without = given.withColumn("headers", f.when(f.col("offset") == 1, f.col("headers")))
    assert [row["_headers"] for row in decode(without, settings).collect()] == [None, one, None]
