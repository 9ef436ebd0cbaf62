"""Reading segments gives the connector's rows, with every column's hash."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark.sql.datasource
import pytest
from pyspark.sql import SparkSession

from kwire.log import open_partition
from kwire.spark.segments import register
from kwire.spark.segments.options import read_options
from kwire.spark.segments.source import SegmentsReader, can_push_filters
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from spark_tests.rows import START_MS, TIMEOUT_S, committed_offsets
from spark_tests.segments import SETTINGS, Written, as_json, hashes, mixed, offsets

DATA = Path(__file__).parent.parent / "tests" / "data"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMMITTED = {"kafka.isolation.level": "read_committed"}
RECORDS = 1500


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """A topic for each codec, one with transactions, and a compacted one."""
    register(spark)
    directory = tmp_path_factory.mktemp("segments") / "data"
    with BrokerProcess(directory, SETTINGS) as process:
        made = Written(process, directory, spark)
        for codec in CODECS:
            topic = made.create(f"codec-{codec}", **{"segment.ms": "300000"})
            mixed(made.producer(**{"compression.type": codec}), topic, 0, RECORDS)
        fill_transactions(made)
        fill_compacted(made)
        for topic in (*(f"codec-{codec}" for codec in CODECS), "transactions", "compacted"):
            made.wait(topic)
        yield made


def fill_transactions(made: Written) -> None:
    """Records inside and outside of transactions; every third is aborted, the last stays open."""
    topic = made.create("transactions", **{"segment.ms": "100000"})
    plain = made.producer()
    producer = made.producer(**{"transactional.id": "t", "transaction.timeout.ms": 600000})
    producer.init_transactions(TIMEOUT_S)
    for number in range(12):
        producer.begin_transaction()
        mixed(producer, topic, number * 60, number * 60 + 50)
        mixed(plain, topic, number * 60 + 50, number * 60 + 60)
        if number % 3 == 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    mixed(producer, topic, 1000, 1050)
    mixed(plain, topic, 1050, 1060)


def fill_compacted(made: Written) -> None:
    """A topic of which compaction has removed records."""
    config = {"cleanup.policy": "compact", "segment.ms": "100000"}
    topic = made.create("compacted", **config, **{"min.cleanable.dirty.ratio": "0.01"})
    producer = made.producer(**{"compression.type": "lz4"})
    for start in range(0, 900, 100):
        for n in range(start, start + 100):
            producer.produce(
                topic,
                b"v" * 200 + b"%d" % n,
                b"k%d" % (n % 10),
                n % 2,
                timestamp=START_MS + n * 1000,
            )
        producer.flush(TIMEOUT_S)
    # The broker is asked: a reader of its files may find one gone that compaction has replaced.
    wait_until(
        lambda: len(committed_offsets(made.bootstrap, topic)) < 400,
        timeout_s=TIMEOUT_S,
        what="the compaction",
    )


@pytest.mark.parametrize("topic", [*(f"codec-{codec}" for codec in CODECS), "compacted"])
def test_the_rows_are_the_connectors(written: Written, topic: str) -> None:
    """Every codec, headers, nulls, empty and large values; in several tasks for each segment."""
    expected = hashes(written.connector(topic))
    assert hashes(written.segments(topic)) == expected
    if topic != "compacted":
        assert sum(row[2] for row in expected) == RECORDS
        assert hashes(written.segments(topic, splitBytes="20000")) == expected


@pytest.mark.both_lanes
def test_transactions_are_the_connectors(written: Written) -> None:
    """Nothing of aborted and open transactions with read_committed; else all but the markers."""
    committed = hashes(written.connector("transactions", **COMMITTED))
    assert hashes(written.segments("transactions", isolation="read_committed")) == committed
    everything = hashes(written.connector("transactions"))
    assert hashes(written.segments("transactions", splitBytes="20000")) == everything
    assert sum(row[2] for row in everything) > sum(row[2] for row in committed)


@pytest.mark.both_lanes
@pytest.mark.parametrize(
    "where",
    [
        "offset >= 200 AND offset < 260",
        "offset = 333 OR offset = 334",
        "partition = 1 AND offset IN (5, 6, 900, 400)",
        "timestamp >= '2023-11-14T22:23:20.500Z' AND timestamp <= '2023-11-14T22:30:00Z'",
        "timestamp > '2023-11-14T22:33:20Z' AND topic = 'codec-lz4'",
        "timestampType = 0 AND key IS NULL AND offset > 1000",
    ],
)
def test_filters_leave_the_connectors_rows(written: Written, where: str) -> None:
    """What is pushed down, where the lane can, is neither too much nor too little."""
    expected = offsets(written.connector("codec-lz4").where(where))
    assert offsets(written.segments("codec-lz4", splitBytes="60000").where(where)) == expected


@pytest.mark.both_lanes
def test_filters_are_pushed_down_where_the_lane_can(written: Written, spark: SparkSession) -> None:
    """A filter of offsets makes fewer tasks; without the setting the query gives the same."""
    expected = [(partition, offset) for partition in range(2) for offset in range(10)]
    assert offsets(written.segments("codec-none").where("offset < 10")) == expected
    if not can_push_filters():
        return
    options = {"path": str(written.directory), "topics": "codec-none", "splitBytes": "5000"}
    reader = SegmentsReader(read_options(options))
    everything = len(reader.partitions())
    below = pyspark.sql.datasource.LessThan(("offset",), 10)
    assert reader.pushFilters([below]) == [below]
    assert len(reader.partitions()) < everything / 4
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "false")
    try:
        assert offsets(written.segments("codec-none").where("offset < 10")) == expected
    finally:
        spark.conf.set(setting, "true")


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": as_json("codec-zstd", {0: 100, 1: -2})},
        {"endingOffsets": as_json("codec-zstd", {0: 100, 1: -1})},
        {"startingTimestamp": str(START_MS + 600_000)},
        {"startingTimestamp": str(START_MS + 600_000), "endingTimestamp": str(START_MS + 700_123)},
    ],
)
def test_options_bound_as_the_connectors_do(written: Written, options: dict[str, str]) -> None:
    """Offsets and times choose the same ranges."""
    expected = offsets(written.connector("codec-zstd", **options))
    assert offsets(written.segments("codec-zstd", **options)) == expected
    assert 0 < len(expected) < RECORDS


@pytest.mark.both_lanes
def test_partitions_and_columns_are_chosen(written: Written) -> None:
    """Only what was asked for, in the order in which it was."""
    rows = written.segments("codec-gzip", partitions="1", columns="value,offset")
    assert rows.columns == ["value", "offset"]
    expected = written.connector("codec-gzip").where("partition = 1").select("value", "offset")
    assert sorted(map(str, rows.collect())) == sorted(map(str, expected.collect()))
    directory = written.directory / "codec-gzip-1"
    single = written.spark.read.format("kwire").load(str(directory))
    assert single.count() == expected.count()


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_directory_of_apache_kafka_is_read(
    spark: SparkSession, tmp_path: Path, isolation: Any
) -> None:
    """Every partition that Kafka 4.4 wrote, with the rows that kwire's own reader finds."""
    register(spark)
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    reader = spark.read.format("kwire").options(includeHeaders="true", isolation=isolation)
    rows = reader.load(str(tmp_path / "logs")).collect()
    found: dict[str, list[Any]] = {}
    for row in sorted(rows, key=lambda row: row.offset):
        headers = tuple((header.key, header.value) for header in row.headers or ())
        entry = (row.offset, row.key, row.value, headers)
        found.setdefault(f"{row.topic}-{row.partition}", []).append(entry)
    assert len(found) == 10
    for name, got in found.items():
        records = open_partition(tmp_path / "logs" / name).records(isolation=isolation)
        assert got == [(r.offset, r.key, r.value, r.headers) for r in records]


def test_a_wrong_option_is_named(written: Written) -> None:
    """Spark's error has the line with the option, the value and what is allowed."""
    with pytest.raises(Exception, match=r"isolation = 'commited': read_committed or read_unc"):
        written.segments("codec-none", isolation="commited")
    with pytest.raises(Exception, match="startingoffset = '1': no such option; there are path"):
        written.segments("codec-none", startingOffset="1").count()
    assert json.loads(as_json("t", {0: 1})) == {"t": {"0": 1}}
