"""Records that Spark's connector can't turn into rows: none of them stops a pipeline."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from kwire.client.cluster import open_cluster
from kwire.client.leaders import TopicPartition as Place
from kwire.client.producer import produce
from kwire.record.batch import ATTRIBUTES_AT
from kwire.record.checksum import crc32c
from kwire.record.records import BatchBuilder
from kwire.spark.batch import OffsetRange
from kwire.spark.decode import decode
from kwire.spark.odd_records import read_by_client
from kwire.spark.segments import register
from kwire.spark.settings import Decode, Source
from kwire.testing.process import BrokerProcess
from spark_tests.commands import Commands
from spark_tests.pipelines import produce_values, settings_of
from spark_tests.processes import toml
from spark_tests.readers import read
from spark_tests.rows import TIMEOUT_S
from spark_tests.segment_files import write
from tests.support.topics import create_topics

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}


def ms(*date: int) -> int:
    """The milliseconds since 1970 of a date."""
    return (datetime(*date, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)  # type: ignore[misc]


KEPT = [
    *(ms(2026, 1, 1), -1, 0, ms(1, 1, 1), ms(1200, 2, 29), ms(1582, 10, 10), ms(1850, 6, 1)),
    *(ms(1899, 12, 31), ms(1900, 1, 1), ms(9999, 12, 31, 23, 59, 59, 999000)),
]
"""Timestamps that a row has as they are."""

REFUSED = [
    *(-(2**62), 1_767_225_600_000_000_000, 2**63 - 1, 2**60 - 2**63, 1_767_225_600_000_000),
    *(ms(1, 1, 1) - 1, ms(9999, 12, 31, 23, 59, 59, 999000) + 1),
]
"""Timestamps that no table can have: nanoseconds, microseconds, and the days after and before."""

HEADERS = ((), (("h", None),), (("caf\udce9", b"1"), ("", b"")), (("h", b"v"),) * 3000)


def batches() -> list[bytearray]:
    """A batch for each timestamp and for odd headers, then one with a damaged record in it."""
    found = []
    for time in (*KEPT, *REFUSED):
        builder = BatchBuilder()
        builder.add(time, b"k", b'{"n": %d}' % len(found), (("h", b"v"),))
        found.append(builder.build())
    for headers in HEADERS:
        builder = BatchBuilder()
        builder.add(ms(2026, 1, 1), b"k", b'{"n": %d}' % len(found), headers)
        found.append(builder.build())
    builder = BatchBuilder()
    for offset in range(11):
        headers = (("name", b"v"),) if offset == 8 else ()
        builder.add(ms(2026, 1, 1), b"k", b'{"n": %d}' % (len(found) + offset), headers)
    damaged = builder.build()
    place = damaged.index(b"\x08name")
    damaged[place] = 0x01  # the header's name is null
    damaged[ATTRIBUTES_AT - 4 : ATTRIBUTES_AT] = crc32c(damaged[ATTRIBUTES_AT:]).to_bytes(4, "big")
    return [*found, damaged]


def fill(broker: str, topic: str, made: list[bytearray]) -> None:
    """Write batches, one after the other."""
    host, _, port = broker.rpartition(":")

    async def work() -> None:
        async with open_cluster([(host, int(port))]) as cluster:
            for one in made:
                found = await produce(cluster, {Place(topic, 0): bytes(one)})
                assert isinstance(found[Place(topic, 0)], int), found

    trio.run(work)


def dead_letters(broker: str, topic: str, count: int) -> dict[int, str]:
    """The error of each dead letter, by the offset of its record."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = {}
    for one in consumer.consume(count, TIMEOUT_S):
        headers = dict(one.headers())
        source = headers["kwire.source"].decode()
        found[int(source.rpartition("/")[2])] = headers["kwire.error"].decode()
    consumer.close()
    return found


def expected_errors() -> dict[int, str]:
    """What the dead letters say about the timestamps."""
    return {
        offset: f"timestamp: {time} ms is in none of the years 1 to 9999"
        for offset, time in enumerate(REFUSED, len(KEPT))
    }


@pytest.mark.both_lanes
def test_no_record_stops_a_pipeline(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """What can be a row is one, with its time as it was; all else is a dead letter with its place.

    The broker has a batch that Java's client refuses: it looks at the checksum alone.
    """
    topic, dead = new_topic(1, **ANY_TIME), new_topic(1)
    fill(broker, topic, batches())
    settings = settings_of(broker, topic, tmp_path)
    settings["sink"]["metadata"] = ["offset", "timestamp"]
    settings["dead_letters"] = {"topic": dead}
    (tmp_path / "p.toml").write_text(toml(settings))
    commands("run", "--quiet")
    last = len(KEPT) + len(REFUSED) + len(HEADERS) + 8
    errors = dead_letters(broker, dead, len(REFUSED) + 1)
    assert {one: text for one, text in errors.items() if one != last} == expected_errors()
    assert re.match(
        f"record: the rest of its batch, up to offset {last + 2}, can't be read: .*header has no",
        errors[last],
    )

    def rows() -> dict[int, Any]:
        table = read("parquet", tmp_path / "table")
        micros = table["_timestamp"].cast("int64").to_pylist()
        assert table["n"].to_pylist() == table["_offset"].to_pylist()
        return dict(zip(table["n"].to_pylist(), micros, strict=True))

    expected = dict(enumerate(one * 1000 for one in KEPT))
    first = len(KEPT) + len(REFUSED)
    expected |= dict.fromkeys(range(first, last), ms(2026, 1, 1) * 1000)
    assert rows() == expected
    found = commands.verify()
    assert (found["sink"], found["dead_letters"]) == (len(expected), len(REFUSED) + 1)
    commands("replay", "--topic", topic)
    assert rows() == expected
    produce_values(broker, topic, json.dumps({"n": last + 3}).encode())
    commands("run", "--quiet")
    assert last + 3 in rows()
    # A dead letter that is sent again gets the time of its failure, and becomes a row.
    assert f"{len(REFUSED)} sent" in commands(
        *("replay", "--dead-letters", "--error", "timestamp:", "--execute")
    )
    commands("run", "--quiet")
    assert len(read("parquet", tmp_path / "table")) == len(expected) + 1 + len(REFUSED)


@pytest.mark.both_lanes
def test_a_batch_that_a_disk_has_damaged_is_one_dead_letter(
    spark: SparkSession, tmp_path: Path, commands: Commands
) -> None:
    """Its checksum is wrong: the batches before and after it become rows."""
    made = []
    for first in (0, 10, 20):
        builder = BatchBuilder()
        for n in (first, first + 1):
            builder.add(ms(2026, 1, 1), b"k", b'{"n": %d}' % n)
        made.append(builder.build())
    with BrokerProcess(tmp_path / "broker") as process:
        create_topics(process.bootstrap, "t")
        fill(process.bootstrap, "t", made)
    [log] = (tmp_path / "broker").glob("**/t-0/*.log")
    log.write_bytes(log.read_bytes().replace(b'{"n": 11}', b'{"n": 12}'))
    with BrokerProcess(tmp_path / "broker") as process:
        settings = settings_of(process.bootstrap, "t", tmp_path)
        settings["dead_letters"] = {"path": str(tmp_path / "dead")}
        (tmp_path / "p.toml").write_text(toml(settings))
        commands("run", "--quiet")
        found = commands.verify()
    assert (found["sink"], found["dead_letters"]) == (4, 1)
    [dead] = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert dead["offset"] == 2
    assert re.match("record: .*, up to offset 3, can't be read: .*checksum", dead["error"])


@pytest.mark.both_lanes
def test_the_segments_have_each_record(spark: SparkSession, tmp_path: Path) -> None:
    """A time that Spark hasn't is null there; decoding makes a dead letter of it."""
    register(spark)
    made = batches()[: len(KEPT) + len(REFUSED)]
    for offset, one in enumerate(made):
        one[:8] = offset.to_bytes(8, "big")
    write(tmp_path / "t-0", made)  # type: ignore[arg-type]
    columns = "key,value,topic,partition,offset,timestamp,timestampMs"
    reader = spark.read.format("kwire").option("columns", columns)
    records = reader.load(str(tmp_path / "t-0"))
    assert [row[0] for row in records.orderBy("offset").select("timestampMs").collect()] == [
        *KEPT,
        *REFUSED,
    ]
    rows = decode(records, Decode(format="json", options={"schema": "n int"}), ["t"])
    found = rows.selectExpr("_offset", "unix_micros(_timestamp)", "_error", "_row.n").collect()
    assert {row[0]: row[2] for row in found if row[2]} == expected_errors()
    kept = {row[0]: (row[1], row[3]) for row in found if not row[2]}
    assert kept == {offset: (one * 1000, offset) for offset, one in enumerate(KEPT)}
    plain = decode(spark.read.format("kwire").load(str(tmp_path / "t-0")), Decode(format="bytes"))
    errors = plain.where("_error IS NOT NULL").select("_offset").collect()
    assert sorted(row[0] for row in errors) == sorted(expected_errors())


def test_a_log_that_ends_too_early_is_an_error(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """A reader of offsets that the broker has lost doesn't wait for them."""
    topic = new_topic(1)
    produce_values(broker, topic, b"1", b"2")
    found = read_by_client(spark, Source(broker, (topic,)), [OffsetRange(topic, 0, 1, 9)])
    with pytest.raises(Exception, match=f"{topic}-0 ends at offset 2, and was to be read up to 8"):
        found.collect()
