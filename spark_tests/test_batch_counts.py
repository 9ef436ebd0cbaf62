"""The counts of a batch, which decide about its dead letters, whatever a transform reads of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.spark.batch import Batch
from kwire.spark.batch_work import BatchWork
from kwire.spark.pipeline_file import pipeline_of
from kwire.spark.sink import Held
from spark_tests.decoding import records_of
from spark_tests.sink_rows import batch

pytestmark = pytest.mark.both_lanes

VALUES = [b'{"n": %d}' % n if n < 15 else b"garbage" for n in range(20)]


def looks_for_rows(rows: DataFrame) -> DataFrame:
    """A transform with an action of its own, which reads a part of the rows."""
    assert not rows.isEmpty()
    return rows


def twice(rows: DataFrame) -> DataFrame:
    """A transform whose rows are read twice."""
    return rows.unionAll(rows)


class Memory:
    """A sink, or the place of dead letters, that counts what it gets."""

    def __init__(self) -> None:
        self.rows = 0

    def check(self) -> None:
        """Nothing can be wrong."""

    def open(self, spark: SparkSession) -> None:
        """Nothing has to be there."""

    def held(self, spark: SparkSession) -> Iterator[Held]:
        """Nobody asks."""
        return iter(())

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Count rows."""
        self.rows += len(rows.collect())


@pytest.mark.parametrize(
    ("transform", "rows"),
    [
        ({"function": "spark_tests.test_batch_counts:looks_for_rows"}, 15),
        ({"function": "spark_tests.test_batch_counts:twice"}, 30),
        ({"sql": "SELECT * FROM rows LIMIT 1"}, 1),
    ],
)
def test_dead_letters_beside_a_transform_that_reads_a_part(
    transform: dict[str, str], rows: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark tells the counts of the first action, which may have seen no dead letter."""
    pipeline = pipeline_of(
        {
            "name": "p",
            "checkpoint": str(tmp_path / "checkpoint"),
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["orders"]},
            "decode": {"schema": "n int"},
            "transform": [transform],
            "sink": {"kind": "parquet", "path": str(tmp_path / "table")},
        }
    )
    sink, dead = Memory(), Memory()
    records = records_of(spark, VALUES)
    counts = BatchWork(pipeline, sink, dead).run(records, batch(0, 0, 20, partitions=1))
    assert (counts.records, counts.dead_letters, counts.value_bytes) == (20, 5, 15 * 8 + 5 + 5 * 7)
    assert (sink.rows, dead.rows) == (rows, 5)


@pytest.mark.parametrize("sql", ["", "SELECT * FROM rows"])
@pytest.mark.parametrize(
    ("sink", "rows", "dead"),
    [
        ({}, 2, 1),
        ({"tombstones": "skip", "metadata": ["tombstone"]}, 2, 1),
        ({"metadata": ["tombstone"]}, 4, 2),
        ({"tombstones": "row"}, 4, 2),
        ({"tombstones": "dead letter"}, 2, 4),
    ],
)
def test_tombstones(
    sink: dict[str, object], rows: int, dead: int, sql: str, spark: SparkSession, tmp_path: Path
) -> None:
    """They are left out, or rows, or dead letters, and each is counted as what it is.

    One of them has a key that is no text, and the batch's offsets have gaps.
    """
    pipeline = pipeline_of(
        {
            "name": "p",
            "checkpoint": str(tmp_path / "checkpoint"),
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["orders"]},
            "decode": {"schema": "n int NOT NULL", "key": "text"},
            "transform": [{"sql": sql}] if sql else [],
            "sink": {"kind": "parquet", "path": str(tmp_path / "table"), **sink},
        }
    )
    found, letters = Memory(), Memory()
    records = records_of(spark, [b'{"n": 1}', None, b"garbage", None, b'{"n": 2}'])
    records = records.union(records_of(spark, [None], key=b"\xff"))
    counts = BatchWork(pipeline, found, letters).run(records, batch(0, 0, 9, partitions=1))
    assert (counts.records, counts.dead_letters) == (6, dead)
    assert (found.rows, letters.rows) == (rows, dead)
