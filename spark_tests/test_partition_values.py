"""Values of ``partition_by``: each comes back as it was, or its record is a dead letter."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kwire.spark.settings import WrongSetting
from spark_tests.commands import Commands
from spark_tests.pipelines import produce_values, run, settings_of
from spark_tests.processes import toml
from spark_tests.readers import read
from spark_tests.test_names import rows_in

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
KINDS = ("delta-rs", *(("delta", "iceberg", "upsert") if STOCK else ()))

VALUES = (
    *(
        "",
        "__HIVE_DEFAULT_PARTITION__",
        "x" * 300,
        "é" * 100,
        "a\0b",
        "a/b",
        "é",
        "..",
        ".",
        "0042",
    ),
    *(
        " a ",
        "%20",
        "a=b",
        "a\nb",
        "null",
        "NULL",
        "x" * 240,
        None,
        "z",
        "\\",
        "'",
        "`",
        "?#",
        "\x7f",
    ),
    *("_a", "+", "a:b", "*", "\u2028", "😀", "-", "1e5", "true"),
    *("*" * 100, " " * 200, "+" * 100, "* " * 41),
)
REFUSED_BY_ALL = {"x" * 300, "é" * 100, "*" * 100, " " * 200, "+" * 100}
REFUSED_BY_DELTA = REFUSED_BY_ALL | {"", "__HIVE_DEFAULT_PARTITION__", "a\0b"}


def pipeline_for(kind: str, broker: str, topic: str, directory: Path) -> dict[str, Any]:
    """A pipeline into a table that is partitioned by a text, with a table of dead letters."""
    found = settings_of(broker, topic, directory, sink__metadata=[])
    found["decode"] = {"format": "json", "schema": "n INT, c STRING, d DATE"}
    found["sink"] = {"kind": kind, "path": str(directory / "table"), "partition_by": ["C"]}
    found["dead_letters"] = {"path": str(directory / "dead")}
    return found


def kept_and_dead(
    kind: str, spark: SparkSession, found: dict[str, Any], directory: Path
) -> tuple[dict[int, Any], dict[int, str]]:
    """The values by number, and the errors of dead letters by number."""
    rows = rows_in(kind, found)
    assert len({row["n"] for row in rows}) == len(rows)
    dead = spark.read.parquet(str(directory / "dead")).collect()
    errors = {json.loads(row["value"])["n"]: row["error"] for row in dead}
    assert len(errors) == len(dead)
    return {row["n"]: row["c"] for row in rows}, errors


@pytest.mark.parametrize(
    "with_transform", [pytest.param(False, marks=pytest.mark.both_lanes), True]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_comes_back_or_is_a_dead_letter(
    kind: str,
    with_transform: bool,
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    commands: Commands,
    tmp_path: Path,
) -> None:
    """Also where a transform has made it; nothing is NULL that wasn't, and the pipeline goes on."""
    topic = new_topic(partitions=1)
    found = pipeline_for(kind, broker, topic, tmp_path)
    if kind == "upsert":
        found["sink"]["key"] = ["n"]
    if with_transform:
        found["decode"]["schema"] = "n INT, e STRING, d DATE"
        found["transform"] = [{"sql": "SELECT * EXCEPT (e), e AS c FROM rows"}]
    name = "e" if with_transform else "c"
    values = [json.dumps({"n": n, name: one}).encode() for n, one in enumerate(VALUES)]
    produce_values(broker, topic, *values)
    run(spark, found)
    refused = REFUSED_BY_ALL if kind == "iceberg" else REFUSED_BY_DELTA
    kept, errors = kept_and_dead(kind, spark, found, tmp_path)
    assert kept == {n: one for n, one in enumerate(VALUES) if one not in refused}
    assert set(errors) == {n for n, one in enumerate(VALUES) if one in refused}
    assert all(one.startswith("value: column C ") for one in errors.values())
    if kind != "upsert" and not with_transform:
        (tmp_path / "p.toml").write_text(toml(found))
        commands("replay", "--topic", topic)
        commands("verify")
        assert kept_and_dead(kind, spark, found, tmp_path) == (kept, errors)
    produce_values(broker, topic, json.dumps({"n": -1, name: "later"}).encode())
    run(spark, found)
    assert kept_and_dead(kind, spark, found, tmp_path)[0][-1] == "later"


def test_a_tombstone_that_is_left_out_has_no_value(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Values are looked for where the transforms see them, who see no tombstone."""
    topic = new_topic(partitions=1)
    found = pipeline_for("delta-rs", broker, topic, tmp_path)
    found["transform"] = [{"sql": "SELECT n, coalesce(c, '') AS c FROM rows"}]
    produce_values(broker, topic, b'{"n": 1, "c": "a"}', None)
    assert run(spark, found).dead_letters == 0
    assert [row["c"] for row in rows_in("delta-rs", found)] == ["a"]
    produce_values(broker, topic, b'{"n": 2}')
    with pytest.raises(
        RuntimeError, match=r"column C is an empty text, .* a transform has dropped"
    ):
        run(spark, found)


@pytest.mark.skipif(not STOCK, reason="no jar for this Spark")
def test_far_dates_of_a_partition(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Delta keeps the years that everybody reads; a date beyond them is a dead letter."""
    topic = new_topic(partitions=1)
    found = pipeline_for("delta", broker, topic, tmp_path)
    found["sink"]["partition_by"] = ["d"]
    days = ("0001-01-01", "0042-03-01", "1582-10-10", "9999-12-31", "+10000-01-01", "-0001-01-01")
    values = [json.dumps({"n": n, "d": one}).encode() for n, one in enumerate(days)]
    produce_values(broker, topic, *values)
    run(spark, found)
    rows = read("delta", tmp_path / "table").to_pylist()
    assert {row["n"]: row["d"].isoformat() for row in rows} == dict(enumerate(days[:4]))
    dead = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert {json.loads(row["value"])["n"] for row in dead} == {4, 5}


@pytest.mark.skipif(not STOCK, reason="no jar for this Spark")
def test_bytes_are_no_partition_of_delta(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """They would become a text: the setting is refused before anything is written."""
    topic = new_topic(partitions=1)
    found = pipeline_for("delta", broker, topic, tmp_path)
    found["sink"] |= {"partition_by": ["_key"], "metadata": ["key"]}
    produce_values(broker, topic, b'{"n": 1}')
    with pytest.raises(WrongSetting, match=r"sink\.partition_by.*no bytes"):
        run(spark, found)
    assert not (tmp_path / "table").exists()
