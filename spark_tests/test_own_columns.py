"""kwire's own columns in a table that somebody else has made: docs/PIPELINES.md has the table."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kwire.spark.batch_work import BatchWork
from kwire.spark.column_names import PARTITION_COLUMN
from kwire.spark.decode import decode
from kwire.spark.settings import Decode, PipelineSettings, SinkSettings, WrongSetting
from kwire.spark.sinks import make_sink
from kwire.spark.sinks.own_columns import own_schema
from spark_tests.decoding import records_of
from spark_tests.readers import read
from spark_tests.sink_rows import SOURCE, batch
from spark_tests.test_far_times import KINDS, given

KINDS = {name: options for name, options in KINDS.items() if name != "parquet"}
MAKERS = {"upsert": "delta", "upsert-iceberg": "iceberg"}
"""The kinds that make a table of any columns for those that need some of their own."""


def made(spark: SparkSession, kind: str, path: Path, ddl: str) -> SinkSettings:
    """The settings of a sink, whose table is there with these columns and no row."""
    settings: SinkSettings = given(kind, path)
    maker = given(MAKERS[kind], path) if kind in MAKERS else settings
    sink = make_sink(replace(maker, metadata=("headers",)), SOURCE, "p")
    sink.open(spark)
    sink.write(spark.createDataFrame([], ddl), batch(0, 0, 1, query="other"))
    return settings


def work_on(spark: SparkSession, sink: SinkSettings) -> BatchWork:
    """The work of a pipeline on its batches, after the check of its start."""
    of = Decode(options={"schema": "n INT"})
    settings = PipelineSettings("p", SOURCE, sink, "checkpoint", decode=of)
    opened = make_sink(settings.sink, SOURCE, "p")
    opened.check()
    opened.open(spark)
    found = BatchWork(settings, opened, None)
    found.check_table(spark)
    return found


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_them_gets_them(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Rows of before have null there. Wider numbers stay, and so does what kwire doesn't write."""
    path = tmp_path / "t"
    work = work_on(spark, made(spark, kind, path, "n INT, _partition BIGINT, _headers INT"))
    one = batch(1, 0, 2, partitions=1)
    counts = work.run(records_of(spark, [b'{"n": 1}', b'{"n": 2}']), one)
    assert (counts.records, counts.dead_letters) == (2, 0)
    found, partition = read(kind, path), PARTITION_COLUMN if "iceberg" in kind else "_partition"
    rows = sorted(found.to_pylist(), key=lambda row: row["n"])
    own = [(row["_topic"], row[partition], row["_offset"], row["_headers"]) for row in rows]
    assert own == [("orders", 0, 0, None), ("orders", 0, 1, None)]


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_with_others_is_refused(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """In one line at the start: else each record would be a dead letter, or in a wrong order."""
    path = tmp_path / "t"
    sink = made(spark, kind, path, "n INT, _offset STRING")
    with pytest.raises(WrongSetting) as refused:
        work_on(spark, sink)
    told = str(refused.value)
    assert "\n" not in told
    assert "the table's column _offset is string, not bigint, and kwire keeps there" in told


@pytest.mark.both_lanes
def test_the_types_are_those_of_rows(spark: SparkSession) -> None:
    """What is checked at the start is what batches have."""
    every = ("topic", "partition", "offset", "timestamp", "key", "headers", "tombstone")
    for key in ("bytes", "text"):
        of = Decode(key=key, options={"schema": "n INT"})
        settings = PipelineSettings("p", SOURCE, SinkSettings("delta", "t", every), "c", decode=of)
        rows = decode(records_of(spark, []), of, ["orders"]).schema
        checked = own_schema(settings)
        assert checked.names == [f"_{one}" for one in every]
        for one in checked:
            assert one.dataType == rows[one.name].dataType
