"""Which columns of the settings had values, as batches are written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kwire.spark.batch_work import BatchWork
from kwire.spark.column_values import FILE, ColumnValues, named_columns, places_of
from kwire.spark.decode.options import options_of
from kwire.spark.pipeline_file import pipeline_of
from kwire.spark.settings import Decode
from kwire.spark.sinks import make_sink
from kwire.spark.storage import LocalStorage
from spark_tests.decoding import records_of
from spark_tests.sink_rows import batch

pytestmark = pytest.mark.both_lanes

DDL = (
    "id INT, Shop STRUCT<name: STRING, `a.b c`: INT>, lines ARRAY<STRUCT<sku: STRING, n: INT>>, "
    "tags MAP<STRING, STRUCT<a: INT, b: INT>>, nothing STRUCT<a: INT>"
)


class Work:
    """A pipeline into files, whose batches are looked at."""

    def __init__(self, spark: SparkSession, path: Path, form: str, schema: str) -> None:
        self._spark = spark
        self._path = path
        settings = pipeline_of(
            {
                "name": "p",
                "checkpoint": str(path / "checkpoint"),
                "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["orders"]},
                "decode": {"schema": schema},
                "sink": {"kind": "parquet", "path": str(path / "table"), "tombstones": "row"},
            }
        )
        settings = replace(settings, decode=Decode(form, options={"schema": schema}))
        of = named_columns(options_of(settings.decode))
        assert of is not None
        sink = make_sink(settings.sink, settings.source, "p")
        sink.open(spark)
        self.now_s = 0.0
        values = ColumnValues(LocalStorage(path), of, lambda: self.now_s)
        self._work = BatchWork(settings, sink, None, values=values)
        self._batches = 0

    def empty(self, *values: bytes | None) -> dict[str, int]:
        """What had no value yet, in how many records, after a batch."""
        records = records_of(self._spark, values)
        self._work.run(records, batch(self._batches, 0, len(values), partitions=1))
        self._batches += 1
        found: dict[str, int] = json.loads((self._path / FILE).read_bytes())["empty"]
        return found


def test_columns_of_json(spark: SparkSession, tmp_path: Path) -> None:
    """By path, in good rows only; what had a value once isn't looked at again."""
    work = Work(spark, tmp_path, "json", DDL)
    first = b'{"id": 1, "shop": {"name": "A"}, "lines": [{"n": null}, {"n": 2}], "tags": {}}'
    assert work.empty(first, b'{"id": "x", "nothing": {"a": 1}}', None, b'{"lines": []}') == {
        "Shop": 2,
        "Shop.name": 2,
        "Shop.a.b c": 2,
        "lines[].sku": 2,
        "tags{}.a": 2,
        "tags{}.b": 2,
        "nothing": 2,
        "nothing.a": 2,
    }
    second = b'{"Shop": {"a.b c": 1}, "lines": [{"sku": "s"}], "tags": {"t": {"b": 1}}}'
    assert work.empty(second) == {"Shop.name": 3, "tags{}.a": 3, "nothing": 3, "nothing.a": 3}
    many = [b"{}"] * 1000
    assert work.empty(*many)["nothing"] == 1003
    assert work.empty(b'{"nothing": {}}')["nothing"] == 1003, "it is looked at after a while"
    work.now_s += 60
    assert work.empty(b'{"nothing": {}}') == {
        "Shop.name": 1004,
        "tags{}.a": 1004,
        "nothing.a": 1004,
    }


def test_rows_of_debezium(spark: SparkSession, tmp_path: Path) -> None:
    """Deletes and heartbeats have no values, and say nothing about columns."""
    work = Work(spark, tmp_path, "debezium", "id INT, nmae STRING, note STRING")
    row = b'{"id": 1, "name": "A", "note": null}'
    found = work.empty(
        b'{"op": "c", "before": null, "after": %s}' % row,
        b'{"op": "d", "before": %s, "after": null}' % row.replace(b"null", b'"gone"'),
        b'{"ts_ms": 1}',
    )
    assert found == {"nmae": 1, "note": 1}


def test_a_reader_schema_of_avro_is_found_by_name() -> None:
    """Where the registry says what was written; without one, nothing is found by name."""
    schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    alone = Decode("avro", options={"schema": schema})
    assert named_columns(options_of(alone)) is None
    of = named_columns(options_of(Decode("avro", registry="http://h:1", options=alone.options)))
    assert of is not None
    assert list(places_of(of)) == ["a"]
