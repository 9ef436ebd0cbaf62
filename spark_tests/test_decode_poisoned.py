"""A poisoned topic through decoding and dead letters: every record is a row or a dead letter, once.

1 % garbage, schemas that change, tombstones, null keys, records of 1 MB, aborted transactions.
"""

import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kwire.schemas.wire_format import header
from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.dead_letters import open_dead_letters
from kwire.spark.decode import decode
from kwire.spark.settings import DeadLetters, Decode, Source
from kwire.spark.sinks.delta import EXTENSION
from kwire.spark.sinks.table_rows import has_class
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.commands import Commands
from spark_tests.decoding import records_of
from spark_tests.pipelines import settings_of
from spark_tests.processes import toml
from spark_tests.rows import TIMEOUT_S
from tests.support.topics import create_topics

FIRST = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "text", "type": ["null", "string"], "default": None},
    ],
}
BATCH = Batch("poisoned", "query", 7, (OffsetRange("orders", 0, 0, 10),))


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    """A registry."""
    with SchemaRegistry() as running:
        yield running


def avro(schema: Any, value: Any, number: int) -> bytes:
    """A value in a registry's format."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return header(number) + stream.getvalue()


def poisoned(first: int, old: int, new: int) -> list[bytes | None]:
    """1,000 values: 1 % garbage, 1 % tombstones, the others in the first or in both schemas."""
    chance = random.Random(first)
    values: list[bytes | None] = []
    for n in range(first, first + 1000):
        is_new = new and n % 2
        values.append(
            avro(SECOND, {"id": n, "text": "x"}, new) if is_new else avro(FIRST, {"id": n}, old)
        )
        if n % 100 == 99:
            values[-1] = chance.randbytes(20)
        elif n % 100 == 98:
            values[-1] = None
    return values


def poison(broker: str, topic: str, first: int, values: list[bytes | None]) -> None:
    """Write values with and without keys, and as many again in transactions that are aborted."""
    producer = Producer(
        {"bootstrap.servers": broker, "transactional.id": topic, "message.max.bytes": 2_000_000}
    )
    producer.init_transactions(TIMEOUT_S)
    for begin in range(0, len(values), 250):
        for is_kept in (False, True):
            producer.begin_transaction()
            for place in range(begin, min(begin + 250, len(values))):
                n = first + place
                key = None if n % 5 == 0 else b"%d" % n
                value = values[place] if is_kept else b"aborted"
                producer.produce(topic, value, key, headers=[("own", b"%d" % n)])
                producer.poll(0)
            if is_kept:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)


@pytest.mark.both_lanes
def test_a_poisoned_topic(
    spark: SparkSession,
    broker: str,
    registry: SchemaRegistry,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """Rows, tombstones and dead letters of a pipeline are the committed records, each once.

    The schema changes between two runs: the table gets a column. ``verify`` agrees.
    """
    topic, dead = new_topic(2), new_topic(1)
    settings = settings_of(broker, topic, tmp_path, dead_letters={"topic": dead}, name="poisoned")
    settings["decode"] = {"format": "avro", "key": "text", "registry": registry.url}
    settings["decode"]["refresh_s"] = 0.01
    settings["sink"]["metadata"] = ["partition", "offset", "key", "tombstone"]
    (tmp_path / "p.toml").write_text(toml(settings))
    subject = f"{topic}-value"
    old = registry.register(subject, json.dumps(FIRST))
    poison(broker, topic, 0, poisoned(0, old, 0))
    commands("run", "--quiet")
    new = registry.register(subject, json.dumps(SECOND))
    values = poisoned(1000, old, new)
    values[500] = avro(SECOND, {"id": 1500, "text": "y" * 1_000_000}, new)
    values[501] = b"\x01" * 1_000_000
    values[502] = header(4711) + b"x"
    poison(broker, topic, 1000, values)
    commands("run", "--quiet")

    rows = plain_rows(tmp_path / "table")
    found = [row for row in rows if not row["_tombstone"]]
    good = {n for n in range(2000) if n % 100 < 98} - {1501, 1502}
    assert sorted(row["id"] for row in found) == sorted(good)
    texts = {row["id"]: row["text"] for row in found}
    assert {texts[n] for n in good if n < 1000 or n % 2 == 0} - {texts[1500]} == {None}
    assert {texts[n] for n in good if n > 1000 and n % 2} == {"x"}
    assert len(texts[1500]) == 1_000_000
    assert [row["id"] for row in rows if row["_tombstone"]] == [None] * 20
    assert len([row for row in rows if row["_key"] is None]) == 400
    verified = json.loads(commands("verify", "--json"))
    assert [sum(one[name] for one in verified) for name in ("broker", "sink")] == [2000, 1978]

    letters = [(one.value(), dict(one.headers())) for one in consumed(broker, dead, 22)]
    everything = poisoned(0, old, 0) + values
    garbage = {value for place, value in enumerate(everything) if place % 100 == 99} | {values[502]}
    assert {value for value, _ in letters if value is not None} == garbage
    [left] = [headers for value, headers in letters if value is None]
    assert left["own"] == b"1501"
    assert left["kwire.value_bytes"] == b"1000000"
    assert len({headers["kwire.source"] for _, headers in letters}) == 22
    assert {headers["kwire.pipeline"] for _, headers in letters} == {b"poisoned"}
    errors = sorted(headers["kwire.error"].split(b":")[0] for _, headers in letters)
    assert errors == [b"registry", *[b"value"] * 21]


def plain_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of all Parquet files, which may have different columns, without Spark."""
    found = [pq.read_table(one, partitioning=None) for one in table.glob("topic=*/*/*.parquet")]
    rows: list[dict[str, Any]] = pa.concat_tables(found, promote_options="permissive").to_pylist()
    return rows


def consumed(broker: str, topic: str, count: int) -> list[Any]:
    """The records of partition 0."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < count:
        found += consumer.consume(count - len(found), TIMEOUT_S)
    consumer.close()
    return found


def bad_rows(spark: SparkSession, count: int = 3) -> DataFrame:
    """Dead letters."""
    settings = Decode(options={"schema": "id INT"})
    frame = decode(records_of(spark, [b"bad %d" % n for n in range(count)]), settings)
    return frame.where("_error IS NOT NULL")


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_table_of_dead_letters_has_each_once(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """A batch that runs again replaces or skips what it wrote; all columns are there."""
    if kind == "delta" and not has_class(spark, EXTENSION):
        pytest.skip("this lane's session has no Delta")
    path = str(tmp_path / "dead")
    sink = open_dead_letters(DeadLetters(path=path, kind=kind), Source("unused"), spark)
    for _ in range(2):
        sink.write(bad_rows(spark), BATCH)
    sink.write(bad_rows(spark, 1), Batch("poisoned", "query", 8, BATCH.ranges))
    found = spark.read.format(kind).load(path).orderBy("offset").collect()
    assert [row.offset for row in found] == [0, 0, 1, 2]
    row = found[-1].asDict(recursive=True)
    assert (row["topic"], row["partition"], row["key"], row["value"]) == (
        "orders",
        0,
        b"k",
        b"bad 2",
    )
    assert (row["error"], row["pipeline"]) == ("value: it is no JSON", "poisoned")
    assert row["headers"] == [{"key": "h", "value": b"1"}]
    if kind == "parquet":
        names = sorted(one.name for one in Path(path).iterdir() if one.suffix == ".parquet")
        ids = [f"dead-poisoned-query-{number:010}.parquet" for number in (7, 8)]
        assert names == ids
        assert not list(tmp_path.glob(".kwire-*/*/*")), "what lay aside"


def test_what_may_pass_goes_to_retry_topics(
    spark: SparkSession,
    broker: str,
    registry: SchemaRegistry,
    new_topic: Callable[..., str],
) -> None:
    """An unknown schema id is tried again as often as there are delays; garbage isn't."""
    topic = new_topic(1)
    for name in (f"poisoned-{topic}-retry-1", f"poisoned-{topic}-retry-2", f"{topic}-dead"):
        create_topics(broker, name)
    registry.register(f"{topic}-value", json.dumps(FIRST))
    attempted = [("kwire.attempt", bytearray(b"1"))]
    exhausted = [("kwire.attempt", bytearray(b"2"))]
    unknown = header(4711) + b"x"
    records = records_of(spark, [b"garbage", unknown, unknown, unknown], topic)
    rows = sorted(records.collect(), key=lambda row: row.offset)
    listed = [row.asDict() for row in rows]
    listed[2]["headers"], listed[3]["headers"] = attempted, exhausted
    frame = spark.createDataFrame([tuple(one.values()) for one in listed], records.schema)
    settings = Decode("avro", registry=registry.url)
    bad = decode(frame, settings, [topic]).where("_error IS NOT NULL")
    letters = DeadLetters(topic=f"{topic}-dead", retry_delays_s=(5, 60))
    open_dead_letters(letters, Source(broker, (topic,)), spark).write(bad, BATCH)
    for name, offset, attempt, delay_ms in (
        ("retry-1", 1, b"1", 5000),
        ("retry-2", 2, b"2", 60_000),
    ):
        [one] = consumed(broker, f"poisoned-{topic}-{name}", 1)
        headers = dict(one.headers())
        assert (one.value(), headers["kwire.attempt"]) == (unknown, attempt)
        assert headers["kwire.source"] == f"{topic}/0/{offset}".encode()
        waited_ms = int(headers["kwire.due_ms"]) - int(headers["kwire.failed_ms"])
        assert waited_ms == delay_ms
    dead = consumed(broker, f"{topic}-dead", 2)
    assert sorted(one.value() for one in dead) == sorted([b"garbage", unknown])


def test_odd_headers_of_a_record_fail_no_batch(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """Numbers of attempts that aren't ours count as none; what is too large stays in its topic."""
    topic = new_topic(1)
    names = [f"poisoned-{topic}-retry-1", f"{topic}-dead"]
    for name in names:
        create_topics(broker, name)
    odd = [b"abc", b"-1", b"-2147483648", b"99999999999", b"\xff"]
    given = [[("kwire.attempt", bytearray(one))] for one in odd]
    given.append([("own", bytearray(1_100_000))])
    records = records_of(spark, [b"%d" % n for n in range(len(given))], topic)
    rows = [row.asDict() for row in sorted(records.collect(), key=lambda row: row.offset)]
    for row, headers in zip(rows, given, strict=True):
        row["headers"] = headers
    frame = spark.createDataFrame([tuple(one.values()) for one in rows], records.schema)
    plain = decode(frame, Decode("text"), [topic])
    bad = plain.withColumn("_error", f.lit("registry: away"))
    letters = DeadLetters(topic=names[1], retry_delays_s=(5,))
    open_dead_letters(letters, Source(broker, (topic,)), spark).write(bad, BATCH)
    retried = consumed(broker, names[0], len(odd))
    assert sorted(one.value() for one in retried) == [b"%d" % n for n in range(len(odd))]
    assert {dict(one.headers())["kwire.attempt"] for one in retried} == {b"1"}
    [large] = consumed(broker, names[1], 1)
    assert (large.key(), large.value()) == (None, None)
    headers = dict(large.headers())
    assert "own" not in headers
    assert (headers["kwire.value_bytes"], headers["kwire.source"]) == (
        b"1",
        f"{topic}/0/5".encode(),
    )
