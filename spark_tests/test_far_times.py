"""Times at the ends of what tables can hold come back equal in readers that aren't Spark."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kwire.spark.batch import Batch
from kwire.spark.dead_letters import ParquetTable
from kwire.spark.sinks import make_sink
from kwire.spark.sinks.table_rows import session_settings
from kwire.spark.upkeep import upkeep_of
from kwire.spark.upkeep.delta_rs import OldTimes
from kwire.spark.upkeep.old_times import any_has_old_times
from spark_tests.far_times import COLUMNS, EARLIER, TIMES, as_earlier, expected
from spark_tests.readers import read
from spark_tests.sink_rows import SOURCE, batch, rows_of, settings

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
ONE = batch(0, 0, 3, partitions=1)
KINDS: dict[str, dict[str, Any]] = {"parquet": {}, "delta-rs": {}}
"""The options of each kind that a lane tests. The newest Spark has no jars for some; to it the
other kind that writes Arrow is the same."""
if STOCK:
    KINDS |= {"pyiceberg": {"table": "s.t"}, "delta": {}, "iceberg": {}, "upsert": {"key": ["n"]}}
    KINDS["upsert-iceberg"] = {"key": ["n"], "format": "iceberg"}


@pytest.fixture
def earlier(spark: SparkSession) -> Iterator[None]:
    """A session of somebody else, with Spark's default."""
    with session_settings(spark, EARLIER):
        yield


def given(kind: str, path: Path) -> Any:
    """The settings of a sink."""
    options = dict(KINDS[kind])
    if kind == "pyiceberg":
        path.mkdir()
        options["catalog"] = {
            "type": "sql",
            "uri": f"sqlite:///{path}/c.db",
            "warehouse": f"file://{path}",
        }
        return settings(kind, "", **options)
    return settings(kind.partition("-")[0] if "upsert" in kind else kind, path, **options)


def write(spark: SparkSession, of: Any, one: Batch = ONE) -> None:
    """A batch with far times through a sink."""
    sink = make_sink(of, SOURCE, "p")
    sink.check()
    sink.open(spark)
    sink.write(rows_of(spark, one, **COLUMNS), one)


def check(table: pa.Table) -> None:
    """Each row has each time, for pyarrow and for pandas."""
    assert table.num_rows == 3
    frame = table.to_pandas(date_as_object=True)
    for name, value in expected().items():
        assert table[name].to_pylist() == [value] * 3, name
        assert [one.to_pydatetime() if name in TIMES else one for one in frame[name]] == [value] * 3


def int96(path: Path) -> list[str]:
    """The columns of type INT96 in the files of a directory."""
    return [
        f"{one.name}: {schema.column(number).name}"
        for one in path.rglob("*.parquet")
        for schema in [pq.ParquetFile(one).schema]
        for number in range(len(schema))
        if schema.column(number).physical_type == "INT96"
    ]


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", KINDS)
def test_times_come_back_equal(
    kind: str, spark: SparkSession, tmp_path: Path, earlier: None
) -> None:
    """From each sink, whatever the session says."""
    write(spark, given(kind, tmp_path / "t"))
    check(read(kind, tmp_path / "t"))
    assert int96(tmp_path) == []


def test_dead_letters_have_no_int96(spark: SparkSession, tmp_path: Path, earlier: None) -> None:
    """Nor has a table of dead letters."""
    from pyspark.sql import functions as f

    rows = rows_of(spark, ONE).withColumns({"_value": f.col("_key"), "_error": f.lit("value: x")})
    ParquetTable(spark, str(tmp_path)).write(rows, ONE)
    assert int96(tmp_path) == []


@pytest.mark.skipif(not STOCK, reason="no jar for this Spark")
def test_compact_finds_old_times_in_a_delta_table(
    spark: SparkSession, tmp_path: Path, earlier: None
) -> None:
    """A file alone, and one that is large enough, are written again; deltalake reads them then.

    deltalake itself would make other times of them, so its own compact, expire and replay refuse.
    """
    path = tmp_path / "t"
    rows = rows_of(spark, ONE, **COLUMNS).drop("_headers", "_tombstone", "_key", "_timestamp")
    rows.write.format("delta").save(str(path))
    assert len(set(int96(path))) == len(TIMES)
    with pytest.raises(OldTimes, match='kind = "delta"'):
        upkeep_of(settings("delta-rs", path)).compact(None, 2**20)
    upkeep = upkeep_of(settings("delta", path))
    upkeep.compact(spark, 1)
    check(read("delta", path))
    upkeep_of(settings("delta-rs", path)).compact(None, 2**20)
    version = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").count()
    upkeep.compact(spark, 2**20)
    assert spark.sql(f"DESCRIBE HISTORY delta.`{path}`").count() == version


def test_compact_finds_old_times_in_files(spark: SparkSession, tmp_path: Path) -> None:
    """A file alone is written again, under its name and with its age."""
    of = given("parquet", tmp_path / "t")
    for number in range(2):
        write(spark, of, batch(number, number * 3, number * 3 + 3, partitions=1))
    first, last = sorted((tmp_path / "t").rglob("*.parquet"))
    as_earlier(spark, first)
    os.utime(first, (1, 1))
    upkeep = upkeep_of(of)
    assert upkeep.needs_spark
    upkeep.compact(spark, 1)
    assert first.stat().st_mtime == 1
    assert sorted((tmp_path / "t").rglob("*.parquet")) == [first, last]
    check(pq.read_table(first, partitioning=None))


def test_a_column_may_be_called_as_the_old_type(spark: SparkSession, tmp_path: Path) -> None:
    """Only the type of a column counts."""
    path = str(tmp_path / "t")
    spark.sql("SELECT 1 AS `int96 x`, 2 AS `optional int96 y`").write.parquet(path)
    assert not any_has_old_times(spark, map(str, Path(path).glob("*.parquet")))
    with session_settings(spark, EARLIER):
        spark.sql("SELECT timestamp_seconds(1) AS t").write.mode("overwrite").parquet(path)
    assert any_has_old_times(spark, map(str, Path(path).glob("*.parquet")))
