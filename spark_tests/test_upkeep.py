"""compact, expire and replay beside a stream that goes on writing; verify of a whole sink."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.spark.batch import OffsetRange
from kwire.spark.comparison import claims_of
from kwire.spark.file_names import FileName
from kwire.spark.settings import DeadLetters, PipelineSettings, Source
from kwire.spark.sink import Sink
from kwire.spark.sinks.delta import DeltaSink
from kwire.spark.sinks.delta_rs import DeltaRsSink
from kwire.spark.sinks.files import FilesSink
from kwire.spark.sinks.iceberg import IcebergSink
from kwire.spark.sinks.table_rows import session_settings
from kwire.spark.upkeep import Cutoff, Upkeep, upkeep_of
from kwire.spark.verify import partition_line, verify, wrong
from spark_tests.far_times import as_earlier
from spark_tests.readers import read
from spark_tests.rows import produce
from spark_tests.sink_rows import SOURCE, START_S, batch, rows_of, settings

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
PAUSE = 6
"""How many times as long as its last write the stream pauses: Delta's commands need a moment
between two commits of the stream, a longer one where everything takes longer."""

KINDS: dict[str, Any] = {"delta": DeltaSink, "iceberg": IcebergSink, "delta-rs": DeltaRsSink}


@pytest.fixture(params=["delta", "iceberg"] if STOCK else ["delta-rs"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Sink, Upkeep]:
    """A sink of each kind, and its upkeep; each kind in one of the lanes."""
    given = settings(request.param, tmp_path / "t", ("timestamp",))
    return KINDS[request.param](given, SOURCE, "pipeline"), upkeep_of(given)


@contextmanager
def running(sink: Sink, spark: SparkSession) -> Iterator[list[int]]:
    """A stream that writes small batches, from batch 5 on, for the time of a block."""
    is_over = threading.Event()
    written: list[int] = []
    failures: list[BaseException] = []

    def write() -> None:
        session = spark.newSession()
        session.conf.set("spark.databricks.delta.snapshotPartitions", "2")
        number, pause_s = 5, 0.0
        try:
            while not is_over.wait(pause_s):
                started_s = time.monotonic()
                one = batch(number, number * 10, number * 10 + 10)
                sink.write(rows_of(session, one), one)
                written.append(number)
                number += 1
                pause_s = PAUSE * (time.monotonic() - started_s)
        except BaseException as error:
            failures.append(error)

    stream = threading.Thread(target=write)
    stream.start()
    try:
        yield written
    finally:
        is_over.set()
        stream.join()
    assert not failures, [str(getattr(one, "java_exception", one)) for one in failures]


@pytest.mark.both_lanes
def test_beside_a_stream(table: tuple[Sink, Upkeep], spark: SparkSession) -> None:
    """Every record is there once after each of the commands, and the stream never fails."""
    sink, upkeep = table
    for number in range(5):
        one = batch(number, number * 10, number * 10 + 10)
        sink.write(rows_of(spark, one), one)
    again = [OffsetRange("orders", 0, 15, 35)]
    with running(sink, spark) as written:
        done = upkeep.compact(spark, 2**20)
        # What the table had more than once, or lacked, is as the broker has it afterwards.
        rows = rows_of(spark, batch(0, 15, 35), city="'Bonn'")
        replayed = upkeep.replay(spark, rows, upkeep.ranges(spark, again[0]))
        cutoff = Cutoff(topic="orders", partition=1, before_offset=25)
        expired = upkeep.expire(spark, cutoff, 7 * 86400)
    assert done.files_before >= 5
    assert (replayed.rows, expired.rows) == (20, 25)
    end = (written[-1] + 1) * 10
    claims = claims_of(sink.held(spark))
    assert list(claims["orders", 0].covered) == [(0, end)]
    assert list(claims["orders", 1].covered) == [(25, end)]
    assert [claim.repeats for claim in claims.values()] == [0, 0]


@pytest.mark.both_lanes
def test_compact_makes_few_files(table: tuple[Sink, Upkeep], spark: SparkSession) -> None:
    """Small files become one, by a target that holds them all."""
    sink, upkeep = table
    for number in range(4):
        one = batch(number, number * 10, number * 10 + 10)
        sink.write(rows_of(spark, one), one)
    done = upkeep.compact(spark, 2**20)
    assert (done.files_before, done.files_after) == (4, 1)


@pytest.mark.both_lanes
def test_expire_by_age_and_what_replay_may_write(
    table: tuple[Sink, Upkeep], spark: SparkSession
) -> None:
    """Rows go by their records' timestamps; a range ends where the table ends."""
    sink, upkeep = table
    one = batch(0, 0, 50)
    sink.write(rows_of(spark, one), one)
    done = upkeep.expire(spark, Cutoff(before_ms=(START_S + 20) * 1000), 3600)
    assert done.rows == 40
    assert list(claims_of(sink.held(spark))["orders", 0].covered) == [(20, 50)]
    assert upkeep.ranges(spark, OffsetRange("orders", 0, 0, 99)) == [
        OffsetRange("orders", 0, 20, 50)
    ]


def snapshots(sink: Sink, spark: SparkSession) -> int:
    """The snapshots of an Iceberg table; 0 of other kinds."""
    if not isinstance(sink, IcebergSink):
        return 0
    return spark.table(f"{sink.table.name}.snapshots").count()


@pytest.mark.both_lanes
def test_a_replay_mends_doubles_and_gaps(table: tuple[Sink, Upkeep], spark: SparkSession) -> None:
    """Rows that are there twice, and rows that are missing, are there once afterwards."""
    sink, upkeep = table
    for number, (first, end) in enumerate([(0, 10), (5, 8), (20, 30)]):
        one = batch(number, first, end, partitions=1)
        sink.write(rows_of(spark, one), one)
    rows = rows_of(spark, batch(0, 0, 30, partitions=1))
    before = snapshots(sink, spark)
    upkeep.replay(spark, rows, [OffsetRange("orders", 0, 3, 25)])
    assert snapshots(sink, spark) - before <= 1, "a kill in between would leave a part"
    claim = claims_of(sink.held(spark))["orders", 0]
    assert (list(claim.covered), claim.repeats) == ([(0, 30)], 0)


def files_of(spark: SparkSession, top: Path, first: int, end: int, **columns: str) -> None:
    """A Parquet file of the files sink, with the rows of a range of partition 0."""
    one = batch(0, first, end, partitions=1)
    path = top / str(FileName("orders", 0, first, end))
    path.parent.mkdir(parents=True, exist_ok=True)
    rows_of(spark, one, **columns).select("n", *columns).toPandas().to_parquet(path)


def test_parquet_files(spark: SparkSession, tmp_path: Path) -> None:
    """Merged with a column that only some have; replayed under the same names."""
    import pyarrow.parquet as pq

    for first in (0, 10, 20, 30):
        files_of(spark, tmp_path, first, first + 10, **({"city": "'Bonn'"} if first else {}))
    upkeep = upkeep_of(settings("parquet", tmp_path))
    done = upkeep.compact(None, 2**20)
    assert (done.files_before, done.files_after) == (4, 2)
    names = sorted(tmp_path.glob("topic=orders/partition=0/*"))
    merged = pq.read_table(names[0], partitioning=None)
    assert merged["n"].to_pylist() == list(range(30))
    assert merged["city"].to_pylist() == [None] * 10 + ["Bonn"] * 20
    ranges = upkeep.ranges(spark, OffsetRange("orders", 0, 12, 15))
    assert ranges == [OffsetRange("orders", 0, 0, 30)]
    rows = rows_of(spark, batch(0, 0, 40, partitions=1), city="'Köln'")
    upkeep.replay(spark, rows, ranges)
    assert sorted(tmp_path.glob("topic=orders/partition=0/*")) == names
    found = read("parquet", tmp_path / "topic=orders").to_pylist()
    assert sorted(row["n"] for row in found) == list(range(40))
    assert {row["city"] for row in found} == {"Köln", "Bonn"}


def texts(rows: DataFrame) -> list[str]:
    """The rows as texts, sorted; PySpark's own rows can't have the ends of what tables can."""
    return sorted(map(str, rows.toArrow().to_pylist()))


@pytest.mark.both_lanes
def test_spark_reads_merged_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    """Of INT96, as earlier versions wrote, and of microseconds; within other types, at the ends.

    Spark writes one file for a replayed range also if it is told to write small ones.
    """
    given = settings("parquet", tmp_path / "t", ("timestamp",))
    columns = {
        "far": "timestamp'9999-12-31 23:59:59.999999'",
        "early": "timestamp'0001-01-01 00:00:00'",
        "julian": "timestamp'1582-10-10 00:00:01'",
        "deep": "array(named_struct('at', map('a', timestamp'9999-12-31 00:00:00')))",
        "local": "timestamp_ntz'2026-01-01 00:00:00'",
    }
    sink = FilesSink(given, SOURCE, "pipeline")
    sink.open(spark)
    written = []
    for number in range(3):
        one = batch(number, number * 10, number * 10 + 10)
        rows = rows_of(spark, one, **columns)
        sink.write(rows, one)
        written += texts(rows.where("_offset < 20").select("n", "_timestamp", *columns))
    for path in Path(given.path).glob("topic=*/*/*-00000000000000000010.parquet"):
        as_earlier(spark, path)
    assert upkeep_of(given).needs_spark
    done = upkeep_of(given).compact(spark, 2**20)
    assert (done.files_before, done.files_after) == (6, 4)
    assert not upkeep_of(given).needs_spark

    def there() -> list[str]:
        found = spark.read.parquet(given.path).where("n < 20")
        return texts(found.select("n", "_timestamp", *columns))

    assert there() == sorted(written)
    ranges = [OffsetRange("orders", one, 0, 20) for one in (0, 1)]
    with session_settings(spark, {"spark.sql.files.maxRecordsPerFile": "3"}):
        upkeep_of(given).replay(spark, rows_of(spark, batch(0, 0, 20), **columns), ranges)
    assert there() == sorted(written)


def test_verify(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A sink that is exact, then one with a gap, a double, and a dead letter."""
    from pyspark.sql import functions as f

    topic = new_topic(1)
    produce(broker, topic, 0, 100)
    given = settings("delta-rs", tmp_path / "t")
    source = Source(broker, (topic,))
    dead = DeadLetters(path=str(tmp_path / "dead"))
    pipeline = PipelineSettings("p", source, given, "/checkpoint", dead_letters=dead)
    sink = DeltaRsSink(given, source, "p")

    def write(number: int, first: int, end: int) -> None:
        one = batch(number, first, end, partitions=1)
        sink.write(rows_of(spark, one).withColumn("_topic", f.lit(topic)), one)

    write(0, 0, 40)
    [found] = verify(spark, pipeline, sink)
    assert found.is_exact
    assert (found.broker, found.sink, found.end) == (40, 40, 40)
    write(1, 42, 60)
    write(2, 50, 53)
    row = f"SELECT '{topic}' AS topic, 0 AS partition"
    own, other = f"{row}, 41L AS offset, 'p' AS pipeline", f"{row}, 40L, 'another'"
    spark.sql(f"{own} UNION ALL {other}").write.parquet(str(tmp_path / "dead"))
    [found] = verify(spark, pipeline, sink)
    assert (found.gaps, found.doubles, found.dead_letters) == (1, 3, 1)
    assert partition_line(found) == f"{topic}-0: 1 gaps (offsets 40-40), 3 doubles (offsets 50-52)"
    assert wrong([found], allows_gaps=True) == [found]
