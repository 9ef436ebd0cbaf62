"""The whole way: PostgreSQL, Debezium on Kafka Connect, kwire, and a Delta table like the source's.

Changes go on while no pipeline runs and while no connector does; the connector is killed, so that
it writes events twice.
"""

import io
import json
import os
import uuid
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from compat_tests.java_tools import MissingTool
from kwire.testing.schema_registry import SchemaRegistry
from kwire.testing.waiting import wait_until
from spark_tests.apicurio import apicurio, avro_converters
from spark_tests.commands import Commands
from spark_tests.pipelines import run
from spark_tests.postgres import TIMEOUT_S, Postgres, debezium, postgres
from spark_tests.processes import toml
from spark_tests.rows import QUICK_FETCH

pytestmark = pytest.mark.skipif(
    os.environ.get("KWIRE_SPARK_LANE") != "stock", reason="no jar of Delta and Iceberg"
)
TABLE = """
CREATE TABLE orders (
    id int PRIMARY KEY, price numeric(10,2), at timestamp, zoned timestamptz, day date, time time,
    note text, raw bytea, doc jsonb, uuid uuid, big numeric, small smallint, ok boolean,
    tags text[], number double precision);
"""
DDL = """
id INT NOT NULL, price DECIMAL(10,2), at TIMESTAMP_NTZ, zoned TIMESTAMP, day DATE, time STRING,
note STRING, raw BINARY, doc STRING, uuid STRING, big STRING, small SMALLINT, ok BOOLEAN,
tags ARRAY<STRING>, number DOUBLE"""
SOURCE = """
SELECT coalesce(json_agg(json_build_array(
    id, price::text, (extract(epoch FROM at) * 1000000)::bigint,
    (extract(epoch FROM zoned) * 1000000)::bigint, day::text, time::text, note,
    encode(raw, 'hex'), doc::text, uuid::text, big::text, small, ok, tags, number
) ORDER BY id), '[]') FROM orders
"""
SNAPSHOT = """
INSERT INTO orders VALUES (1, 12.50, '2026-01-02 03:04:05.123456', '2026-01-02 03:04:05.123456+02',
    '2026-01-31', '12:00:00.123456', 'x', '\\x0001ff', '{"a": 1.10}',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 12345678901234567890.125, -3, true, '{a,NULL}', 0.1);
INSERT INTO orders VALUES (2, -0.01, '1900-01-01', '9999-12-31 23:59:59Z', '1900-01-01', '00:00',
    '', '', '[]', NULL, -1e20, 32767, false, '{}', 'NaN');
INSERT INTO orders SELECT id, 1.5, now() FROM generate_series(3, 20) id;
"""
CHANGES = """
UPDATE orders SET price = 99999999.99, note = 'é', tags = NULL WHERE id = 1;
UPDATE orders SET id = 100, note = 'moved' WHERE id = 3;
DELETE FROM orders WHERE id BETWEEN 4 AND 8;
INSERT INTO orders (id, note) VALUES (4, 'back');
UPDATE orders SET id = id + 1000 WHERE id > 15 AND id < 100;
SELECT pg_logical_emit_message(true, 'x', 'a message');
BEGIN; INSERT INTO orders (id) VALUES (50); DELETE FROM orders WHERE id = 50; COMMIT;
BEGIN; INSERT INTO orders (id) VALUES (51); ROLLBACK;
"""
LARGE = """
INSERT INTO orders (id, note) SELECT 60, string_agg(md5(i::text), '')
    FROM generate_series(1, 900) i;
UPDATE orders SET price = 1 WHERE id = 60;
INSERT INTO orders (id, note) SELECT 61, note FROM orders WHERE id = 60;
"""
STILL_LARGE = """
UPDATE orders SET price = 2 WHERE id IN (60, 61);
ALTER TABLE orders REPLICA IDENTITY FULL;
UPDATE orders SET price = 3 WHERE id = 60;
UPDATE orders SET id = 62 WHERE id = 61;
"""
MORE = """
DELETE FROM orders WHERE id IN (9, 10);
INSERT INTO orders (id, ok) VALUES (10, false);
UPDATE orders SET id = 5, small = NULL WHERE id = 1;
"""
TRUNCATED = """
TRUNCATE orders;
INSERT INTO orders (id, note) VALUES (1, 'new'), (2, 'new');
DELETE FROM orders WHERE id = 2;
"""


class Feed:
    """The topics of a connector, and a pipeline that reads them into a table."""

    def __init__(self, broker: str, place: Path, registry: str = "", url: str = "") -> None:
        self._broker = broker
        self._converters = avro_converters(url) if url else {}
        self.prefix = f"shop{uuid.uuid4().hex}"
        self.table = str(place / f"{self.prefix}-table")
        self.dead = place / f"{self.prefix}-dead"
        decode = {"format": "debezium", "schema": DDL}
        self.settings: dict[str, Any] = {
            "name": self.prefix,
            "checkpoint": str(place / f"{self.prefix}-checkpoint"),
            "trigger": "once",
            "source": {
                "bootstrap_servers": broker,
                "pattern": f"(__debezium-heartbeat[.])?{self.prefix}([.].*)?",
                "client": QUICK_FETCH,
            },
            "decode": decode | ({"registry": registry} if registry else {}),
            "sink": {"kind": "upsert", "path": self.table, "key": ["id"]},
            "dead_letters": {"path": str(self.dead)},
        }

    def connector(self) -> dict[str, str]:
        """The connector's settings."""
        return {
            "topic.prefix": self.prefix,
            "slot.name": self.prefix,
            "publication.name": self.prefix,
            "skipped.operations": "none",
            "provide.transaction.metadata": "true",
            "heartbeat.interval.ms": "200",
            **self._converters,
        }

    def wait_for(self, number: int) -> None:
        """Wait until an event of the row with this id is in the topic."""
        key = b'"payload":{"id":%d}}' % number
        if self._converters:
            varint = io.BytesIO()
            fastavro.schemaless_writer(varint, "int", number)
            key = varint.getvalue()
        options = {"bootstrap.servers": self._broker, "group.id": uuid.uuid4().hex}
        consumer = Consumer(options | {"auto.offset.reset": "earliest"})
        consumer.subscribe([f"{self.prefix}.public.orders"])

        def is_there() -> bool:
            records = consumer.consume(1000, 0.2)
            return any((one.key() or b"").endswith(key) for one in records)

        try:
            wait_until(is_there, timeout_s=TIMEOUT_S, what=f"an event of row {number}")
        finally:
            consumer.close()


class Shop:
    """The database, and its feeds: the same changes in JSON and in Avro."""

    def __init__(self, database: Postgres, broker: str, place: Path, feeds: list[Feed]) -> None:
        self._database = database
        self._broker = broker
        self._place = place
        self._marks = 10_000
        self.feeds = feeds

    def connectors(self) -> Any:
        """The connectors, until their block ends."""
        found = {one.prefix: one.connector() for one in self.feeds}
        return debezium(self._broker, self._database, self._place, found)

    def change(self, sql: str) -> None:
        """Run statements, and wait until Debezium has written what they did."""
        self._marks += 1
        self._database(f"{sql}; INSERT INTO orders (id) VALUES ({self._marks})")
        self.wait_for(self._marks)

    def wait_for(self, number: int) -> None:
        """Wait until an event of the row with this id is in each topic."""
        for one in self.feeds:
            one.wait_for(number)

    def source_rows(self) -> list[list[Any]]:
        """The rows of the source, as JSON can have them."""
        found = json.loads(self._database(SOURCE))
        return [list(map(_comparable, row)) for row in found]


def _comparable(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and value != value else value


def rows_of(spark: SparkSession, path: str) -> list[list[Any]]:
    """The rows of the Delta table in the form of ``Shop.source_rows``."""
    us = [f.unix_micros(f.col(one).cast("timestamp")).alias(one) for one in ("at", "zoned")]
    texts = [f.col(one).cast("string").alias(one) for one in ("price", "day")]
    more = ["note", f.lower(f.hex("raw")), "doc", "uuid", "big", "small", "ok", "tags", "number"]
    table = spark.read.format("delta").load(path).orderBy("id")
    found = table.select("id", texts[0], *us, texts[1], "time", *more).collect()
    return [list(map(_comparable, row)) for row in found]


@pytest.mark.runs(
    "Debezium for PostgreSQL",
    "debezium-connector-postgres",
    "at least once; a pipeline of kwire makes a table equal to PostgreSQL's of its events",
)
def test_a_table_equals_that_of_postgresql(
    spark: SparkSession, broker: str, tmp_path: Path, commands: Commands
) -> None:
    """Snapshot, changes, large values, truncate, a killed connector; no dead letter, no gap.

    In JSON with its schema, and in Avro as Apicurio's converter writes it, with a registry.
    """
    try:
        with (
            postgres() as database,
            SchemaRegistry() as registry,
            apicurio(registry) as url,
        ):
            database(TABLE + SNAPSHOT)
            in_json = Feed(broker, tmp_path)
            in_avro = Feed(broker, tmp_path, registry.url, url)
            shop = Shop(database, broker, tmp_path, [in_json, in_avro])

            def run_and_compare(*feeds: Feed) -> None:
                for one in feeds:
                    run(spark, one.settings)
                    assert rows_of(spark, one.table) == shop.source_rows()

            with shop.connectors():
                shop.wait_for(20)
                run_and_compare(in_json)
                shop.change(CHANGES + LARGE)
                run_and_compare(in_json)
                shop.change("UPDATE orders SET price = 1 WHERE id = 61")
            database("UPDATE orders SET note = 'while no connector runs' WHERE id = 9")
            with shop.connectors():
                shop.change(MORE + STILL_LARGE)
                run_and_compare(in_json, in_avro)
                shop.change(TRUNCATED)
            run_and_compare(in_json, in_avro)
            assert len(shop.source_rows()) == 2
            for one in shop.feeds:
                assert not one.dead.exists()
                (tmp_path / "p.toml").write_text(toml(one.settings))
                commands("verify")
    except MissingTool as missing:
        pytest.skip(str(missing))
