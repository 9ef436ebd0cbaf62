"""Reads records of a topic once, not as a stream: ranges of offsets, or all records."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.spark.batch import OffsetRange
from kwire.spark.settings import Source
from kwire.spark.source import consumer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


def read_ranges(
    spark: "SparkSession", source: Source, ranges: Iterable[OffsetRange]
) -> "DataFrame":
    """The records of ranges, with the connector's columns.

    A partition is read from its first range to its last, including the records between ranges.
    """
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for one in ranges:
        place = (one.topic, one.partition)
        first, end = spans.get(place, (one.first, one.end))
        spans[place] = (min(first, one.first), max(end, one.end))
    firsts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (first, end) in spans.items():
        firsts.setdefault(topic, {})[str(partition)] = first
        ends.setdefault(topic, {})[str(partition)] = end
    partitions = {topic: sorted(map(int, numbers)) for topic, numbers in firsts.items()}
    reader = _reader(spark, source).option("assign", json.dumps(partitions))
    reader = reader.option("startingOffsets", json.dumps(firsts))
    return reader.option("endingOffsets", json.dumps(ends)).load()


def read_topic(spark: "SparkSession", source: Source, topic: str) -> "DataFrame":
    """All records of a topic, with the connector's columns."""
    return _reader(spark, source).option("subscribe", topic).load()


def _reader(spark: "SparkSession", source: Source) -> "DataFrameReader":
    return spark.read.format("kafka").options(**consumer_options(source))
