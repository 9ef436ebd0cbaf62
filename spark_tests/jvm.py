"""Spark's own objects in the JVM, for tests of what only they tell."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

# Private attributes: PySpark has no public way to the JVM.


def jvm_of(spark: SparkSession) -> Any:
    """The JVM, whose classes are its attributes."""
    assert spark._jvm is not None
    return spark._jvm


def session_in_jvm(spark: SparkSession) -> Any:
    """The JVM's session."""
    return spark._jsparkSession


def optimized_plan(frame: DataFrame) -> str:
    """What Spark is going to compute for a frame."""
    plan: str = frame._jdf.queryExecution().optimizedPlan().toString()
    return plan
