"""Debezium's events in a table of upserts: after every batch it equals the source's table.

The source is a dict in Python, whose changes are written as Debezium writes them.
"""

import datetime
import os
import random
import re
import tomllib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.schemas.wire_format import header
from kwire.spark import rows as names
from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.batch_work import BatchWork, Counts, good_rows
from kwire.spark.decode import decode
from kwire.spark.pipeline_file import pipeline_of
from kwire.spark.settings import Decode, WrongSetting
from kwire.spark.sinks import make_sink
from kwire.spark.sinks.iceberg_table import IcebergTable
from kwire.spark.split import Splits, may_change
from kwire.spark.storage import LocalStorage
from kwire.spark.truncates import Truncates
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.connect_avro import AvroConverter
from spark_tests.decoding import CONNECTOR
from spark_tests.readers import by_deltalake, by_pyiceberg
from tests.support.debezium import PLACEHOLDER, TIME, Record, SourceTable, decimal, schema

pytestmark = pytest.mark.skipif(
    os.environ.get("KWIRE_SPARK_LANE") != "stock", reason="no jar of Delta and Iceberg"
)
TEXT = schema("string")
COLUMNS = {
    "id": schema("int32", optional=False),
    "price": decimal(2, 10),
    "at": schema("int64", f"{TIME}MicroTimestamp"),
    "note": TEXT,
}
DDL = "id INT NOT NULL, price DECIMAL(10,2), at TIMESTAMP, note STRING"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
START_US = 1_769_864_645_000_000

Place = tuple[int, int]
"""Partition and offset."""


class Dead:
    """The errors of dead letters, by partition and offset."""

    def __init__(self) -> None:
        self.errors: dict[Place, str] = {}

    def write(self, dead: DataFrame, batch: Batch) -> None:
        """Keep them."""
        found = dead.select(names.PARTITION, names.OFFSET, names.ERROR).collect()
        self.errors |= {(row[0], row[1]): row[2] for row in found}


class Work:
    """A pipeline's work on batches of records, and its table."""

    def __init__(self, spark: SparkSession, path: Path, form: str, **more: Any) -> None:
        self._spark = spark
        self._read = by_deltalake if form == "delta" else by_pyiceberg
        self._path = path / form
        self._batches = more.pop("batches", 0)
        settings = pipeline_of(
            {
                "name": "p",
                "checkpoint": str(path / "checkpoint"),
                "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["shop"]},
                "decode": {"format": "debezium", "schema": DDL} | more.pop("decode", {}),
                "sink": {"kind": "upsert", "format": form, "key": ["id"]}
                | more.pop("sink", {})
                | {"path": str(self._path)},
                "transform": more.pop("transform", []),
            }
        )
        self.settings = settings
        sink = make_sink(settings.sink, settings.source, "p")
        sink.check()
        sink.open(spark)
        self.sink = sink
        self.dead = Dead()
        splits = Splits(LocalStorage(path)) if may_change(settings) else None
        truncates = Truncates(LocalStorage(path))
        self._work = BatchWork(settings, sink, self.dead, splits, truncates=truncates)

    def batch(
        self,
        records: dict[Place, Record],
        *,
        again: bool = False,
        headers: Any = None,
        incarnation: int = 0,
    ) -> Counts:
        """Write a batch of records by their places; ``again`` as after a kill."""
        self._batches += not again
        ends: dict[int, list[int]] = {}
        for partition, offset in records:
            ends.setdefault(partition, []).append(offset)
        ranges = [
            OffsetRange("shop", one, min(at), max(at) + 1, incarnation) for one, at in ends.items()
        ]
        batch = Batch("p", "q", self._batches, tuple(ranges))
        return self._work.run(frame(self._spark, records, headers), batch)

    def table(self) -> list[dict[str, Any]]:
        """The table's rows, as its format's own library has them: that is quick."""
        return list(self._read(self._path).to_pylist())

    def rows(self) -> dict[int, tuple[Any, ...]]:
        """The table's rows by id; of rows that are marked as deleted, none."""
        found = self.table()
        gone = [row for row in found if row.get(names.TOMBSTONE)]
        assert all(row["note"] is None and row["price"] is None for row in gone)
        assert not any(names.CHANGE in row for row in found)
        left = {row["id"]: row for row in found if not row.get(names.TOMBSTONE)}
        assert len(left) == len(found) - len(gone)
        return {number: (row["price"], at_us(row), row["note"]) for number, row in left.items()}


def at_us(row: dict[str, Any]) -> int | None:
    """The microseconds of a row's time."""
    at = row["at"]
    return None if at is None else (at - EPOCH) // datetime.timedelta(microseconds=1)


def pipelines_of(heading: str) -> list[dict[str, Any]]:
    """The examples of a section of docs/PIPELINES.md."""
    text = (Path(__file__).parents[1] / "docs" / "PIPELINES.md").read_text(encoding="utf-8")
    section = text.partition(f"\n### {heading}\n")[2].partition("\n## ")[0]
    return [tomllib.loads(one) for one in re.findall(r"```toml\n(.*?)```", section, re.DOTALL)]


def frame(spark: SparkSession, records: dict[Place, Record], headers: Any = None) -> DataFrame:
    """Records as the connector gives them; the later an offset, the later its time."""
    data = [
        (*record, "shop", *place, EPOCH + datetime.timedelta(days=1, seconds=place[1]), 0, headers)
        for place, record in records.items()
    ]
    return spark.createDataFrame(data, CONNECTOR)


def placed(records: Iterable[Record], first: int = 0, partition: int = 0) -> dict[Place, Record]:
    """Records at offsets of a partition."""
    return {(partition, first + at): one for at, one in enumerate(records)}


def row_of(number: int, cents: int | None, note: str | None) -> dict[str, Any]:
    """A row as it is in JSON."""
    price = None
    if cents is not None:
        price = b64encode(cents.to_bytes(8, "big", signed=True)).decode()
    return {"id": number, "price": price, "at": START_US + number, "note": note}


def stored(row: dict[str, Any], cents: int | None) -> tuple[Any, ...]:
    """The same row as the table has it."""
    price = None if cents is None else Decimal(cents).scaleb(-2)
    return price, row["at"], row["note"]


class Shop:
    """The source's table, changed by chance; each change gives its records."""

    def __init__(self, source: SourceTable, seed: int) -> None:
        self._source = source
        self._chance = random.Random(seed)
        self._now: dict[int, tuple[dict[str, Any], int | None]] = {}

    def rows(self) -> dict[int, tuple[Any, ...]]:
        """The rows by id, as the table should have them."""
        return {number: stored(*one) for number, one in self._now.items()}

    def _new(self, number: int) -> dict[str, Any]:
        cents = self._chance.choice([None, self._chance.randrange(-(10**9), 10**9)])
        row = row_of(number, cents, self._chance.choice([None, "", "é", "x" * 50]))
        self._now[number] = row, cents
        return row

    def snapshot(self) -> Iterator[Record]:
        """Rows that were there before."""
        for number in range(5):
            yield self._source.create(self._new(number), "r")

    def change(self) -> Iterator[Record]:
        """One change."""
        number = self._chance.randrange(12)
        kind = self._chance.choices(["write", "delete", "key", "message"], [6, 3, 2, 1])[0]
        if kind == "message":
            yield self._source.message("Ymfy")
        elif number not in self._now:
            yield self._source.create(self._new(number))
        elif kind == "delete":
            yield from self._source.delete(self._now.pop(number)[0])
        elif kind == "key" and (free := sorted(set(range(12)) - set(self._now))):
            before, cents = self._now.pop(number)
            after = before | {"id": self._chance.choice(free)}
            self._now[after["id"]] = after, cents
            yield from self._source.update_key(before, after)
        else:
            yield self._source.update(self._new(number))

    def truncate(self) -> Iterator[Record]:
        """All rows are gone."""
        self._now.clear()
        yield self._source.truncate()

    def batches(self) -> Iterator[list[Record]]:
        """The records of batches: a truncate at an end, in the middle, alone, and twice."""
        yield [*self.snapshot(), *self._changes(10)]
        yield self._changes(15)
        yield [*self._changes(4), *self.truncate(), *self._changes(8)]
        yield [*self._changes(8), *self.truncate()]
        yield self._changes(8)
        yield [*self.truncate()]
        yield [*self._changes(6), *self.truncate(), *self._changes(1), *self.truncate()]
        yield self._changes(10)

    def _changes(self, count: int) -> list[Record]:
        return [one for _ in range(count) for one in self.change()]


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry that takes a key of any type: a truncation has none."""
    with SchemaRegistry() as running:
        running.set_compatibility("NONE")
        yield running


@pytest.mark.parametrize(
    ("form", "converter", "deletes"),
    [("delta", "json", "remove"), ("delta", "bare", "mark"), ("iceberg", "avro", "remove")],
)
def test_the_table_equals_the_source(
    form: str,
    converter: str,
    deletes: str,
    spark: SparkSession,
    tmp_path: Path,
    registry: SchemaRegistry,
) -> None:
    """After the snapshot, changes of rows and keys, and truncates; also if a batch runs again."""
    decode = {
        "json": {},
        "bare": {"decimals": "base64", "timestamps": "microseconds"},
        "avro": {"registry": registry.url},
    }[converter]
    work = Work(spark, tmp_path, form, decode=decode, sink={"deletes": deletes})
    shop = Shop(SourceTable("orders", COLUMNS, has_schema=converter != "bare"), seed=len(form))
    in_avro = AvroConverter(registry.url)
    first = 0
    for number, records in enumerate(shop.batches()):
        if converter == "avro":
            records = [in_avro.record(one) for one in records]
        batch = placed(records, first)
        first += len(batch)
        counts = work.batch(batch)
        assert (counts.records, counts.dead_letters) == (len(batch), 0)
        assert work.rows() == shop.rows()
        if number in (2, 3):
            work.batch(batch, again=True)
            assert work.rows() == shop.rows()
    assert work.dead.errors == {}


def test_an_event_whose_schema_is_not_known(
    spark: SparkSession, tmp_path: Path, registry: SchemaRegistry
) -> None:
    """It is worth a retry, and stays a dead letter when its batch runs again."""
    source, in_avro = SourceTable("orders", COLUMNS), AvroConverter(registry.url)
    work = Work(spark, tmp_path, "delta", decode={"registry": registry.url})
    row = row_of(1, 250, "x")
    key, value = in_avro.record(source.create(row))
    batch = placed([(key, value), (key, header(777) + b"x")])
    for again in (False, True):
        counts = work.batch(batch, again=again)
        assert (counts.records, counts.dead_letters) == (2, 1)
        assert work.rows() == {1: stored(row, 250)}
        assert work.dead.errors[0, 1].startswith("registry: ")


def test_a_tombstone_that_compaction_has_left(spark: SparkSession, tmp_path: Path) -> None:
    """It deletes by itself: the delete before it is gone."""
    source = SourceTable("orders", COLUMNS)
    work = Work(spark, tmp_path, "delta")
    one, two = row_of(1, 5, "x"), row_of(2, 6, "y")
    work.batch(placed([source.create(one), source.create(two)]))
    work.batch({(0, 7): source.tombstone(one)})
    assert work.rows() == {2: stored(two, 6)}


def test_a_truncate_and_other_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """In its own partition offsets decide, in others the time, as for any record of upserts."""
    source = SourceTable("orders", COLUMNS)
    work = Work(spark, tmp_path, "delta")
    old = {(1, 3): source.create(row_of(1, 1, "old")), (0, 9): source.create(row_of(2, 2, "old"))}
    new = {(1, 12): source.create(row_of(3, 3, "new")), (0, 11): source.create(row_of(4, 4, "new"))}
    work.batch(old | new)
    # Offsets are times, too: the truncate is later than what is old.
    work.batch({(0, 10): source.truncate(), (1, 13): source.create(row_of(5, 5, "new"))})
    assert sorted(work.rows()) == [3, 4, 5]
    work.batch({(0, 20): source.truncate(), (1, 19): source.create(row_of(6, 6, "old"))})
    assert work.rows() == {}


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_truncate_and_older_records_that_are_read_later(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    """They change nothing: neither in the next batch nor in one after a restart.

    They are no dead letters either, also if they lack values. Records of the new topic that has the
    name later are no older ones.
    """
    source = SourceTable("orders", COLUMNS)

    def created(number: int) -> Record:
        return source.create(row_of(number, number, "new"))

    work = Work(spark, tmp_path, form)
    work.batch({(0, 1): created(1), (1, 2): created(2)})
    work.batch({(0, 20): source.truncate(), (2, 21): created(3)})
    assert sorted(work.rows()) == [3]
    unchanged = source.update(row_of(2, 9, PLACEHOLDER))
    late = {(1, 10): created(4), (2, 19): created(5), (1, 11): unchanged, (1, 21): created(6)}
    for again in (False, True):
        counts = work.batch(late, again=again)
        assert (counts.records, counts.dead_letters) == (4, 0)
        assert sorted(work.rows()) == [3, 6]
    after = Work(spark, tmp_path, form, batches=9)
    after.batch({(0, 22): created(7), (1, 12): created(8), (3, 0): (b"{}", b"garbage")})
    assert sorted(after.rows()) == [3, 6, 7]
    assert list(after.dead.errors) == [(3, 0)]
    after.batch({(1, 13): created(9)}, incarnation=1)
    assert sorted(after.rows()) == [3, 6, 7, 9]


def test_a_truncate_of_a_batch_that_runs_again(spark: SparkSession, tmp_path: Path) -> None:
    """It is known afterwards, whether the table has taken the batch before or not."""
    source = SourceTable("orders", COLUMNS)
    work = Work(spark, tmp_path, "delta")
    work.batch(placed([source.create(row_of(1, 1, "x"))]))
    work.batch({(0, 20): source.truncate()})
    (tmp_path / "truncates.json").unlink()
    after = Work(spark, tmp_path, "delta", batches=2)
    after.batch({(0, 20): source.truncate()}, again=True)
    after.batch({(1, 5): source.create(row_of(2, 2, "x"))})
    assert after.rows() == {}


def test_odd_records_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    """They have their places and reasons, stop nothing, and change no row."""
    source = SourceTable("orders", COLUMNS)
    one = row_of(1, 5, "x")
    key, good = source.create(one)
    flat = b'{"id":1,"note":"flat"}'
    records: list[Record] = [
        (key, good),
        (key, flat),
        source.create(one | {"note": PLACEHOLDER}),
        (b'{"other":1}', None),
        (b'{"id":1}', b'{"op":"c","after":{"id":9,"note":"\\ud800"}}'),
        source.create(one | {"at": 2**62}),
        (b"{}", b'{"ts_ms":1}'),
    ]
    work = Work(spark, tmp_path, "delta")
    for again in (False, True):
        counts = work.batch(placed(records), again=again)
        assert (counts.records, counts.dead_letters) == (7, 5)
        assert work.rows() == {1: stored(one, 5)}
    assert {place[1]: error[:36] for place, error in work.dead.errors.items()} == {
        1: "value: it is no envelope of Debezium",
        2: "value: column note has a value that ",
        3: "value: column id has no value, and i",
        4: "value: 'utf-8' codec can't encode ch",
        5: "value: column at: time 4611686018427",
    }


@pytest.mark.parametrize(
    ("form", "deletes"), [("delta", "remove"), ("delta", "mark"), ("iceberg", "remove")]
)
def test_values_that_events_lack(
    form: str, deletes: str, spark: SparkSession, tmp_path: Path
) -> None:
    """They are those of the batch's records before, or of the table; else dead letters."""
    source = SourceTable("orders", COLUMNS)
    work = Work(spark, tmp_path, form, sink={"deletes": deletes})
    large = {number: row_of(number, 1, f"large {number}") for number in range(1, 6)}

    def without_note(number: int, cents: int) -> Record:
        return source.update(row_of(number, cents, PLACEHOLDER))

    # The first batch has no table yet: only what is in the batch is known.
    first = [source.create(large[1]), without_note(1, 2), without_note(1, 3), without_note(9, 1)]
    first += [source.create(large[2]), source.create(large[3]), source.create(large[4])]
    work.batch(placed(first))
    assert work.rows() == {1: stored(large[1], 3)} | {
        number: stored(large[number], 1) for number in (2, 3, 4)
    }
    assert list(work.dead.errors) == [(0, 3)]
    second = [without_note(1, 4), without_note(2, 5), source.update(row_of(2, 6, None))]
    second += [without_note(2, 7), *source.delete(large[3]), without_note(3, 8), without_note(9, 2)]
    for again in (False, True):
        work.batch(placed(second, 10), again=again)
        rows = {1: stored(large[1], 4), 2: stored(row_of(2, 7, None), 7)}
        assert work.rows() == rows | {4: stored(large[4], 1)}
        # A connector that goes on after a failure may write an update again, after the delete.
        assert sorted(work.dead.errors) == [(0, 3), (0, 16), (0, 17)]
    work.batch(placed([source.create(large[5]), without_note(3, 9), without_note(4, 9)], 20))
    assert work.rows()[4] == stored(large[4], 9)
    assert sorted(work.dead.errors)[3:] == [(0, 21)]
    assert work.dead.errors[0, 21] == (
        "value: column note is unchanged, and nothing surely has its value: "
        "the source's table needs REPLICA IDENTITY FULL"
    )


def test_values_that_nothing_surely_has(spark: SparkSession, tmp_path: Path) -> None:
    """What a dead letter, a truncate or another partition may have changed isn't taken."""
    source = SourceTable("orders", COLUMNS)
    work = Work(spark, tmp_path, "delta")
    old = {number: row_of(number, 1, f"large {number}") for number in (1, 2)}

    def without_note(number: int) -> Record:
        return source.update(row_of(number, 7, PLACEHOLDER))

    without_price = source.update(row_of(9, None, "new") | {"price": PLACEHOLDER})
    work.batch(placed([*map(source.create, old.values()), without_price, without_note(9)]))
    assert sorted(work.dead.errors) == [(0, 2), (0, 3)]
    work.batch(placed([(b'{"id":1}', b'{"id":1,"note":"flat"}'), without_note(1)], 10))
    assert sorted(work.dead.errors)[2:] == [(0, 10), (0, 11)]
    new = row_of(2, 6, "new")
    work.batch({(1, 20): source.update(new), (0, 21): without_note(2)})
    assert sorted(work.dead.errors)[4:] == [(0, 21)]
    rows = {1: stored(old[1], 1), 2: stored(new, 6)}
    assert work.rows() == rows
    ddl = DDL.replace("10,2", "12,2")
    wider = Work(spark, tmp_path, "delta", decode={"schema": ddl}, batches=3)
    misfit = source.update(row_of(1, 10**10, "new"))
    wider.batch(placed([misfit, without_note(1)], 30))
    assert sorted(wider.dead.errors) == [(0, 30), (0, 31)]
    assert work.rows() == rows
    work = Work(spark, tmp_path, "delta", batches=4)
    work.batch(placed([without_note(1), source.truncate(), without_note(2)], 40))
    assert sorted(work.dead.errors) == [(0, 40), (0, 42)]
    assert work.rows() == {}


def test_a_value_of_a_column_that_the_table_spells_otherwise(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It is kept; and a row that another program has deleted meanwhile stops the batch."""
    work = Work(spark, tmp_path, "delta")
    one = row_of(1, 5, "large")
    work.batch(placed([SourceTable("orders", COLUMNS).create(one)]))
    columns = {name.upper() if name == "note" else name: of for name, of in COLUMNS.items()}
    source = SourceTable("orders", columns)
    ddl = DDL.replace("note", "NOTE")
    other = Work(spark, tmp_path, "delta", decode={"schema": ddl}, batches=1)
    update = source.update({"id": 1, "price": None, "at": START_US, "NOTE": PLACEHOLDER})
    other.batch({(0, 1): update})
    assert work.rows() == {1: (None, START_US, "large")}
    settings = Decode("debezium", options={"schema": ddl})
    gone = source.update({"id": 2, "price": None, "at": START_US, "NOTE": PLACEHOLDER})
    rows = good_rows(decode(frame(spark, {(0, 3): gone}), settings))
    with pytest.raises(Exception, match="another program deleted a row"):
        other.sink.write(rows, Batch("p", "q", 9, (OffsetRange("shop", 0, 3, 4),)))
    assert work.rows() == {1: (None, START_US, "large")}


@pytest.mark.parametrize("deletes", ["remove", "mark"])
def test_a_delete_with_the_whole_row(deletes: str, spark: SparkSession, tmp_path: Path) -> None:
    """It needs no tombstone, and no value but the key's; nothing else is kept of the row."""
    source = SourceTable("orders", COLUMNS)
    work = Work(spark, tmp_path, "delta", sink={"deletes": deletes})
    one = row_of(1, 5, "x")
    work.batch(placed([source.create(one), source.delete(one | {"at": 2**62}, is_full=True)[0]]))
    assert (work.rows(), work.dead.errors) == ({}, {})


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_truncate_of_a_table_with_constraints(
    form: str, spark: SparkSession, tmp_path: Path
) -> None:
    """What it marks as deleted keeps the values that the table demands, and no others."""
    source = SourceTable("orders", COLUMNS)
    work = Work(spark, tmp_path, form, sink={"deletes": "mark"})
    columns = "id INT, price DECIMAL(10,2) NOT NULL, at TIMESTAMP, note STRING, _topic STRING"
    columns += ", {} INT, _offset BIGINT, _timestamp TIMESTAMP, _tombstone BOOLEAN"
    table = f"delta.`{tmp_path / form}`"
    if form == "iceberg":
        iceberg = IcebergTable(work.settings.sink)
        iceberg.open(spark)
        table = iceberg.name
    partition = "_partition" if form == "delta" else "_topic_partition"
    spark.sql(f"CREATE TABLE {table} ({columns.format(partition)}) USING {form}")
    if form == "delta":
        spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT soon CHECK (AT < '2100-01-01')")
    work.batch(placed([source.create(row_of(1, 5, "x")), source.create(row_of(2, 6, "y"))]))
    work.batch(placed([source.truncate(), source.create(row_of(3, 7, "z"))], 2))
    rows = sorted(work.table(), key=lambda row: int(row["id"]))
    assert [row[names.TOMBSTONE] for row in rows] == [True, True, False]
    assert [row["note"] for row in rows] == [None, None, "z"]
    assert [row["price"] for row in rows] == [Decimal("0.05"), Decimal("0.06"), Decimal("0.07")]
    kept = [1, 2, 3] if form == "delta" else [3]
    assert [row["id"] for row in rows if row["at"] is not None] == kept
    assert work.dead.errors == {}


def test_a_transform_that_loses_the_change(spark: SparkSession, tmp_path: Path) -> None:
    """It is refused: truncates would be lost."""
    source = SourceTable("orders", COLUMNS)
    sql = "SELECT * EXCEPT (_debezium) FROM rows"
    work = Work(spark, tmp_path, "delta", transform=[{"sql": sql}])
    with pytest.raises(WrongSetting, match="keep the column _debezium"):
        work.batch(placed([source.create(row_of(1, 5, "x"))]))


def test_values_that_a_transform_would_need(spark: SparkSession, tmp_path: Path) -> None:
    """With transforms, what an event lacks makes it a dead letter, and the row stays."""
    source = SourceTable("orders", COLUMNS)
    sql = "SELECT * EXCEPT (note), upper(note) AS note FROM rows"
    work = Work(spark, tmp_path, "delta", transform=[{"sql": sql}])
    one = row_of(1, 5, "X")
    work.batch(placed([source.create(one), source.update(row_of(1, 6, PLACEHOLDER))]))
    assert work.rows() == {1: stored(one, 5)}
    assert list(work.dead.errors) == [(0, 1)]


def test_a_transform_that_loses_the_key(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows are dead letters, those of truncates aren't."""
    source = SourceTable("orders", COLUMNS)
    sql = "SELECT * EXCEPT (id), IF(id = 2, NULL, id) AS id FROM rows"
    work = Work(spark, tmp_path, "delta", transform=[{"sql": sql}])
    one, two = row_of(1, 5, "x"), row_of(2, 6, "y")
    work.batch(placed([source.create(row_of(3, 1, "z")), source.truncate()]))
    work.batch(placed([source.create(one), source.create(two)], 2))
    assert work.rows() == {1: stored(one, 5)}
    assert list(work.dead.errors) == [(0, 3)]


def test_the_rows_of_a_job_of_ones_own(spark: SparkSession) -> None:
    """``decode`` gives the rows with the change; a record's own columns are as they were."""
    source = SourceTable("orders", COLUMNS)
    records = placed([source.create(row_of(1, 5, "x")), *source.delete(row_of(1, 5, "x"))])
    settings = Decode("debezium", key="text", options={"schema": DDL})
    found = decode(frame(spark, records), settings).orderBy("_offset").collect()
    assert [row[names.CHANGE].op for row in found] == ["c", "d", "d"]
    assert [row[names.TOMBSTONE] for row in found] == [False, True, True]
    assert [row[names.ROW].id for row in found] == [1, 1, 1]
    assert [row[names.VALUE] for row in found] == [value for _, value in records.values()]


def test_an_outbox(spark: SparkSession, tmp_path: Path) -> None:
    """The two pipelines of docs/PIPELINES.md: a message once, though its row is deleted soon."""
    columns = dict.fromkeys(("id", "aggregatetype", "aggregateid", "type", "payload"), TEXT)
    source = SourceTable("outbox", columns)
    order = {"id": "m1", "aggregatetype": "order", "aggregateid": "7", "type": "created"}
    order |= {"payload": '{"id": 7, "total": 9.90}'}
    other = order | {"id": "m2", "aggregatetype": "customer"}
    routed, rows = pipelines_of("Outbox")
    work = Work(spark, tmp_path / "rows", "delta", **rows)
    records = [source.create(order), *source.delete(order), source.create(other)]
    work.batch(placed([*records, source.create(order)]))
    assert work.dead.errors == {}
    [row] = work.table()
    assert (row["id"], row["type"], row["message"]) == (
        "m1",
        "created",
        {"id": 7, "total": Decimal("9.90")},
    )
    work = Work(spark, tmp_path / "routed", "delta", **routed)
    twice = placed([(b"7", b'{"id": 7, "total": 9.90}'), (b"7", b'{"id": 7, "total": 9.90}')])
    work.batch(twice, headers=[("id", b"m1")])
    work.batch(placed([(b"7", b'{"id": 8}')], 2), headers=[("other", b"m2")])
    found = [(row["message"], row["total"]) for row in work.table()]
    assert found == [("m1", Decimal("9.90"))]
    assert list(work.dead.errors) == [(0, 2)]
