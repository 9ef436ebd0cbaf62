"""Rows that a constraint of the table refuses: their records are dead letters, nothing stops."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kwire.spark.settings import Decode, SinkSettings
from kwire.spark.sinks.iceberg_table import IcebergTable
from spark_tests.sink_rows import batch
from spark_tests.test_decided import KINDS, Attempts, offsets, sink_of

DDL = "c INT, s STRING, st STRUCT<a: INT, b: STRING>"
PLACES = "_topic STRING, {} INT, _offset BIGINT"
GOOD = {"c": 1, "s": "x", "st": {"a": 1, "b": "b"}}


def attempts(spark: SparkSession, directory: Path, *changes: dict[str, Any] | None) -> Attempts:
    """Good records with changes of one each, or garbage; dead letters are kept at once."""
    values = [b"garbage" if one is None else json.dumps(GOOD | one).encode() for one in changes]
    found = Attempts(spark, directory, values)
    found.letters.fails = False
    return found


def make_table(kind: str, sink: SinkSettings, spark: SparkSession, directory: Path) -> None:
    """A table that somebody else has made, with what each format has of constraints."""
    columns = "c INT, s STRING NOT NULL, st STRUCT<a: INT NOT NULL, b: STRING>, more STRING"
    if kind == "pyiceberg":
        from pyiceberg.catalog import load_catalog
        from pyiceberg.schema import Schema
        from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

        inner = StructType(
            NestedField(8, "a", IntegerType(), required=True), NestedField(9, "b", StringType())
        )
        kinds = {"c": IntegerType(), "s": StringType(), "st": inner, "_topic": StringType()}
        kinds |= {"_topic_partition": IntegerType(), "_offset": LongType(), "more": StringType()}
        fields = [
            NestedField(at, name, of, required=name == "s")
            for at, (name, of) in enumerate(kinds.items(), 1)
        ]
        catalog = load_catalog("kwire", **sink.options["catalog"])
        catalog.create_namespace("s")
        catalog.create_table("s.t", Schema(*fields))
    elif "iceberg" in kind:
        table = IcebergTable(sink)
        table.open(spark)
        more = ", _timestamp TIMESTAMP" if "upsert" in kind else ""
        places = PLACES.format("_topic_partition")
        spark.sql(f"CREATE TABLE {table.name} ({columns}, {places}{more}) USING iceberg")
    elif kind == "delta-rs":
        from deltalake import DeltaTable, Field, Schema
        from deltalake.schema import StructType as Struct

        inner = Struct([Field("a", "integer", nullable=False), Field("b", "string")])
        fields = [
            *(Field("c", "integer"), Field("s", "string", nullable=False), Field("st", inner)),
            *(Field("_topic", "string"), Field("_partition", "integer"), Field("_offset", "long")),
        ]
        table = DeltaTable.create(directory / "table", Schema([*fields, Field("more", "string")]))
        table.alter.add_constraint({"positive": "c > 0"})
    else:
        name = f"delta.`{directory}/table`"
        more = ", _timestamp TIMESTAMP" if "upsert" in kind else ""
        places = PLACES.format("_partition")
        spark.sql(f"CREATE TABLE {name} ({columns}, {places}{more}) USING delta")
        spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT positive CHECK (c > 0)")


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_breaks_a_constraint(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """NOT NULL at any depth, and CHECK where the format has it; with a transform as well."""
    sink = sink_of(kind, tmp_path)
    make_table(kind, sink, spark, tmp_path)
    changes = ({}, {"s": None}, {"c": -1}, None, {"c": None}, {"st": {"b": "x"}}, {"st": None}, {})
    work = attempts(spark, tmp_path, *changes)
    for transform in ("", "SELECT *, upper(s) AS more FROM rows"):
        work.letters.errors.clear()
        one = batch(len(transform), 0, 100, partitions=1)
        work.run(sink, Decode(options={"schema": DDL}), transform, one)
        errors = work.letters.errors
        assert errors.pop(1) == "value: column s has no value, and the table's is NOT NULL"
        assert errors.pop(5) == "value: column st.a has no value, and the table's is NOT NULL"
        assert errors.pop(3) == "value: it is no JSON"
        if "iceberg" not in kind:
            told = "value: the table refuses its row: CHECK positive (c > 0)"
            assert (errors.pop(2), errors.pop(4)) == (told, told)
        is_of_spark = kind in ("iceberg", "upsert-iceberg")
        if not is_of_spark:
            assert errors.pop(6) == "value: column st.a has no value, and the table's is NOT NULL"
        assert errors == {}
        good = [0, *([6] if is_of_spark else []), *([2, 4] if "iceberg" in kind else []), 7]
        times = 1 if "upsert" in kind or not transform else 2
        assert offsets(kind, tmp_path) == sorted(good * times)
