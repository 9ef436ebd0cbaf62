"""The kinds iceberg (stock lane) and pyiceberg: each batch once, also after snapshots expired."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kwire.spark.comparison import claims_of
from kwire.spark.settings import WrongSetting
from kwire.spark.sink import Sink
from kwire.spark.sinks.iceberg import IcebergSink
from kwire.spark.sinks.iceberg_py import PyIcebergSink
from spark_tests.jvm import jvm_of, session_in_jvm
from spark_tests.readers import read
from spark_tests.sink_rows import SOURCE, batch, expected, numbers, rows_of, settings

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
needs_jar = pytest.mark.skipif(not STOCK, reason="no jar for this Spark")


def by_path(path: Path, **options: Any) -> IcebergSink:
    """A sink whose table is a directory."""
    sink = IcebergSink(settings("iceberg", path / "t", **options), SOURCE, "pipeline")
    sink.check()
    return sink


def by_catalog(path: Path, catalog: str) -> IcebergSink:
    """A sink with a table of a catalog."""
    catalog_settings = {"type": "hadoop", "warehouse": str(path)}
    given = settings("iceberg", table=f"{catalog}.sales.orders", catalog=catalog_settings)
    sink = IcebergSink(given, SOURCE, "pipeline")
    sink.check()
    return sink


def write(sink: Sink, spark: SparkSession, *batches: Any) -> None:
    """Write batches with rows for all their offsets."""
    for one in batches:
        sink.write(rows_of(spark, one), one)


def name_of(sink: IcebergSink) -> str:
    """The table's name in SQL."""
    return sink.table.name


@needs_jar
def test_a_batch_that_runs_again_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    """Also an older one, by a new sink, as after a crash of the driver; in a path or a catalog."""
    one, two = batch(0, 0, 20), batch(1, 20, 30)
    for place in (by_path, lambda path: by_catalog(path, "lake")):
        for again in (one, two, two, one):
            sink = place(tmp_path)
            sink.open(spark)
            write(sink, spark, again)
        assert numbers(sink.table.read(spark)) == expected(one, two)
        other = batch(0, 60, 65, query="another")
        write(sink, spark, other, two)
        assert numbers(sink.table.read(spark)) == expected(one, two, other)


@needs_jar
def test_a_batch_whose_snapshot_has_expired_is_known_by_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Another writer went on, and all snapshots of the query are gone before it runs again."""
    sink = by_path(tmp_path)
    one, two = batch(0, 0, 20), batch(1, 20, 30)
    write(sink, spark, one, two, batch(0, 90, 95, query="another"))
    table = jvm_of(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        session_in_jvm(spark), name_of(sink)
    )
    now_ms = jvm_of(spark).System.currentTimeMillis() + 60_000
    table.expireSnapshots().expireOlderThan(now_ms).retainLast(1).commit()
    assert sink.table.newest_batch(spark, "q") is None
    write(sink, spark, two)
    assert len(numbers(sink.table.read(spark))) == 70
    write(sink, spark, batch(2, 30, 40))
    assert len(numbers(sink.table.read(spark))) == 90


@needs_jar
def test_a_new_checkpoint_adds_only_what_the_table_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its batches are cut elsewhere: one has rows that are there and rows that aren't."""
    sink = by_path(tmp_path)
    write(sink, spark, batch(0, 0, 10))
    whole = batch(0, 0, 100, query="new checkpoint")
    write(sink, spark, whole, whole)
    assert numbers(sink.table.read(spark)) == expected(whole)


@needs_jar
def test_new_columns_are_added_also_within_structs(spark: SparkSession, tmp_path: Path) -> None:
    """Old rows have null there; rows without a column that the table has are written too."""
    sink = by_path(tmp_path)
    for number, columns in enumerate(
        (
            {"s": "named_struct('a', 1)"},
            {"s": "named_struct('a', 2, 'b', 'b')", "city": "'Bonn'"},
            {"s": "named_struct('a', 3)"},
        )
    ):
        one = batch(number, number, number + 1, partitions=1)
        sink.write(rows_of(spark, one, **columns), one)
    rows = sorted(spark.table(name_of(sink)).collect(), key=lambda row: row.n)
    assert [row.city for row in rows] == [None, "Bonn", None]
    assert [(row.s.a, row.s.b) for row in rows] == [(1, None), (2, "b"), (3, None)]


@needs_jar
def test_partitions_properties_and_what_the_table_holds(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Options of the table's creation, and its offsets."""
    sink = by_path(
        tmp_path, partition_by=["_topic", "_topic_partition"], properties={"history.expire.x": "1"}
    )
    write(sink, spark, batch(0, 0, 10), batch(1, 12, 20))
    assert "history.expire.x" in str(spark.sql(f"SHOW TBLPROPERTIES {name_of(sink)}").collect())
    claim = claims_of(sink.held(spark))["orders", 1]
    assert (list(claim.covered), claim.rows) == ([(0, 10), (12, 20)], 18)


@pytest.mark.both_lanes
def test_without_java(spark: SparkSession, tmp_path: Path) -> None:
    """pyiceberg writes each batch once, adds columns, and says what its table holds."""
    catalog = {
        "name": "lake",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}",
    }
    given = settings("pyiceberg", table="sales.orders", catalog=catalog)
    one, two = batch(0, 0, 20), batch(1, 20, 30)
    for again, columns in ((one, {}), (two, {"city": "'Bonn'"}), (two, {})):
        sink = PyIcebergSink(given, SOURCE, "pipeline")
        sink.check()
        sink.open(spark)
        sink.write(rows_of(spark, again, **columns), again)
    three = batch(2, 30, 33)
    write(sink, spark, three, one)
    claims = claims_of(sink.held(spark))
    assert [(list(one.covered), one.repeats) for one in claims.values()] == [([(0, 33)], 0)] * 2
    rows = read("pyiceberg", tmp_path).to_pylist()
    assert sum(row["city"] == "Bonn" for row in rows) == 20


@pytest.mark.both_lanes
@pytest.mark.skipif(STOCK, reason="this lane has the jar")
def test_a_spark_without_iceberg_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    """One line at the start, with the kind that works."""
    with pytest.raises(WrongSetting, match='kind = "pyiceberg"'):
        by_path(tmp_path).open(spark)


def test_wrong_options_are_named(tmp_path: Path) -> None:
    """The option, its value and what is allowed."""
    wrongs: list[Any] = [
        settings("iceberg"),
        settings("iceberg", tmp_path, table="lake.t"),
        settings("iceberg", table="t"),
    ]
    for wrong in wrongs:
        with pytest.raises(WrongSetting, match=r"sink\.table"):
            IcebergSink(wrong, SOURCE, "p").check()
    with pytest.raises(WrongSetting, match=r"sink\.catalog"):
        PyIcebergSink(settings("pyiceberg", table="a.b"), SOURCE, "p").check()
