"""The kinds delta and delta-rs: each batch once, new columns, what the table holds."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kwire.spark.comparison import claims_of
from kwire.spark.settings import WrongSetting
from kwire.spark.sink import OffsetsUnknown, Sink
from kwire.spark.sinks.arrow_rows import TooManyRows
from kwire.spark.sinks.delta import DeltaSink
from kwire.spark.sinks.delta_rs import DeltaRsSink
from spark_tests.readers import read
from spark_tests.sink_rows import SOURCE, batch, expected, numbers, rows_of, settings

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
KINDS: dict[str, Any] = {"delta": DeltaSink, "delta-rs": DeltaRsSink}


def sink_of(kind: str, path: Path, **options: Any) -> Sink:
    """A sink with its table in a directory."""
    sink: Sink = KINDS[kind](settings(kind, path, **options), SOURCE, "pipeline")
    sink.check()
    return sink


@pytest.fixture(
    params=[
        pytest.param("delta", marks=pytest.mark.skipif(not STOCK, reason="no jar for this Spark")),
        "delta-rs",
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind that the lane has."""
    return str(request.param)


def places(path: Path) -> list[tuple[int, int]]:
    """Partition and offset of every row, read without Spark."""
    rows = read("delta", path).to_pylist()
    return sorted((row["_partition"], row["_offset"]) for row in rows)


def test_a_batch_that_runs_again_is_there_once(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Also an older one, by a new sink, as after a crash of the driver; another query writes."""
    one, two = batch(0, 0, 50), batch(1, 50, 60)
    for again in (one, two, two, one):
        sink = sink_of(kind, tmp_path / "t")
        sink.open(spark)
        sink.write(rows_of(spark, again), again)
    assert places(tmp_path / "t") == expected(one, two)
    other = batch(0, 60, 65, query="another")
    sink_of(kind, tmp_path / "t").write(rows_of(spark, other), other)
    assert places(tmp_path / "t") == expected(one, two, other)


def test_a_batch_that_failed_halfway_is_there_once(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """A task that fails after others have written leaves nothing that readers see."""
    from pyspark.sql import functions as f

    one = batch(0, 0, 50)
    rows = rows_of(spark, one)
    broken = rows.repartition(4).withColumn(
        "n", f.when(f.col("_offset") == 49, f.raise_error(f.lit("killed"))).otherwise(f.col("n"))
    )
    sink = sink_of(kind, tmp_path / "t")
    with pytest.raises(Exception, match="killed"):
        sink.write(broken, one)
    sink.write(rows, one)
    assert places(tmp_path / "t") == expected(one)


def test_new_columns_are_added(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Old rows have null there; rows without a column that the table has are written too."""

    sink = sink_of(kind, tmp_path / "t")
    for number, columns in enumerate(({}, {"city": "'Bonn'"}, {})):
        one = batch(number, number, number + 1, partitions=1)
        sink.write(rows_of(spark, one, **columns), one)
    rows = read("delta", tmp_path / "t").to_pylist()
    assert [row["city"] for row in sorted(rows, key=lambda row: row["n"])] == [None, "Bonn", None]


def test_the_table_has_what_metadata_asks_for(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Topic, partition and offset are there in any case."""
    from deltalake import DeltaTable

    for name, metadata in (("few", ()), ("more", ("timestamp", "key"))):
        one = batch(0, 0, 3)
        given = settings(kind, tmp_path / name, metadata)
        KINDS[kind](given, SOURCE, "p").write(rows_of(spark, one), one)
    few, more = (
        {field.name for field in DeltaTable(tmp_path / name).schema().fields}
        for name in ("few", "more")
    )
    assert few == {"_topic", "_partition", "_offset", "n"}
    assert more == few | {"_timestamp", "_key"}


def test_what_a_table_holds(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Offsets by partition, with gaps and doubles."""
    sink = sink_of(kind, tmp_path / "t")
    for number, (first, end) in enumerate([(0, 10), (12, 20), (5, 7)]):
        one = batch(number, first, end)
        sink.write(rows_of(spark, one), one)
    claims = claims_of(sink.held(spark))
    assert sorted(claims) == [("orders", 0), ("orders", 1)]
    claim = claims["orders", 1]
    assert (claim.first, claim.end, claim.rows, claim.repeats) == (0, 20, 20, 2)
    assert (list(claim.covered), list(claim.doubled)) == ([(0, 10), (12, 20)], [(5, 7)])


def test_a_table_without_offsets_says_so(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """A transform has dropped them: rows are written, and verify can't compare."""
    sink = sink_of(kind, tmp_path / "t")
    one = batch(0, 0, 3)
    sink.write(rows_of(spark, one).select("n"), one)
    with pytest.raises(OffsetsUnknown, match="no column _topic"):
        list(sink.held(spark))


def test_the_driver_collects_no_more_than_it_may(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that is too large names the setting, and nothing is written."""
    one = batch(0, 0, 50)
    sink = sink_of("delta-rs", tmp_path / "t", max_rows=99)
    with pytest.raises(TooManyRows, match=r"sink\.max_rows = 99"):
        sink.write(rows_of(spark, one), one)
    sink_of("delta-rs", tmp_path / "t", max_rows=100).write(rows_of(spark, one), one)
    assert places(tmp_path / "t") == expected(one)


@pytest.mark.skipif(not STOCK, reason="no jar for this Spark")
def test_both_kinds_know_each_others_batches(spark: SparkSession, tmp_path: Path) -> None:
    """A pipeline may change its kind between two runs of a batch."""
    for number, kinds in enumerate((("delta", "delta-rs"), ("delta-rs", "delta"))):
        one = batch(number, number * 10, number * 10 + 10)
        for kind in kinds:
            sink_of(kind, tmp_path / "t").write(rows_of(spark, one), one)
    assert numbers(spark.read.format("delta").load(str(tmp_path / "t"))) == places(tmp_path / "t")
    assert len(places(tmp_path / "t")) == 40


@pytest.mark.both_lanes
@pytest.mark.skipif(STOCK, reason="this lane has the jar")
def test_a_spark_without_delta_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    """One line at the start, with the kind that works."""
    with pytest.raises(WrongSetting, match='kind = "delta-rs"'):
        sink_of("delta", tmp_path / "t").open(spark)


def test_wrong_options_are_named(tmp_path: Path) -> None:
    """The option, its value and what is allowed."""
    for wrong in ({"partitionby": ["a"]}, {"partition_by": "a"}):
        with pytest.raises(WrongSetting, match=r"sink\.partition"):
            sink_of("delta", tmp_path, **wrong)
    with pytest.raises(WrongSetting, match=r"sink\.path"):
        DeltaRsSink(settings("delta-rs"), SOURCE, "p").check()
