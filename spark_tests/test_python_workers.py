"""The Python workers of these tests begin quickly, so that a busy machine doesn't fail them."""

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.both_lanes


def test_workers_have_the_pyspark_of_the_lane(spark: SparkSession) -> None:
    """Not Spark's archive of sources, which each start would compile."""
    [(path, python)] = spark.range(1).rdd.map(lambda _: (sys.path, sys.executable)).collect()
    assert not [one for one in path if Path(one).is_file()]
    assert python == sys.executable
