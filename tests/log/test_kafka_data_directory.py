"""A data directory that Apache Kafka 4.4.0 wrote and closed is opened, read, and left as it was."""

import base64
import gzip
import json
import tarfile
from pathlib import Path

import pytest

from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.recovery import open_log
from kwire.record.records import records
from tests.support.time_lookups import max_timestamp, offset_for_timestamp

DATA = Path(__file__).parent.parent / "data"
NOW_MS = 1_800_000_000_000


class LazyDisk(Disk):
    """A disk that waits for nothing."""

    def sync(self, fd: int) -> None:
        """Nothing."""

    def sync_directory(self, path: Path) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def expected():
    """``topic-partition/isolation`` → rows as Kafka's consumer saw them."""
    with gzip.open(DATA / "kafka-4.4-expected.json.gz") as file:
        return json.load(file)


@pytest.fixture
def data_directory(tmp_path):
    """The data directory, unpacked."""
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "logs"


def open_manager(directory):
    """Open the directory as its owner does."""
    return LogManager.open([directory], node_id=1, now_ms=NOW_MS, disk=LazyDisk())


def content(directory):
    """The bytes of every file of a partition's directory, by name."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def text(value):
    """Bytes in the form of the expected rows."""
    return None if value is None else base64.b64encode(value).decode()


def consume(tools_batches, aborted):
    """Rows as a consumer makes them of batches and the aborted transactions it was told."""
    rows, waiting, dropped = [], sorted(aborted, key=lambda entry: entry.first_offset), set()
    for batch in tools_batches:
        while waiting and waiting[0].first_offset <= batch.last_offset:
            dropped.add(waiting.pop(0).producer_id)
        if batch.is_control:
            dropped.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in dropped):
            rows += [
                [
                    record.offset,
                    batch.timestamp_type + 1,
                    record.timestamp,
                    text(record.key),
                    text(record.value),
                    [[name, text(value)] for name, value in record.headers],
                ]
                for record in records(batch)
            ]
    return rows


def test_every_record_is_read_as_kafkas_consumer_read_it(tools, data_directory, expected):
    """All codecs, both timestamp types, both isolation levels, through reads by offset."""
    manager = open_manager(data_directory)
    for key, wanted in expected.items():
        name, isolation = key.split("/")
        topic, partition = name.rsplit("-", 1)
        log = manager.logs[topic, int(partition)]
        aborted, end = [], log.log_end_offset
        if isolation == "read_committed":
            end = log.first_unstable_offset or end
            aborted = log.aborted_transactions(log.log_start_offset, end)
        rows = consume((b for b in tools.batches(log) if b.last_offset < end), aborted)
        assert [row for row in rows if row[0] >= log.log_start_offset] == wanted, key
    manager.close(NOW_MS)


def test_a_clean_stop_leaves_the_partitions_as_they_were(data_directory):
    """Opened and closed, not a byte of a partition's directory differs."""
    before = {path.name: content(path) for path in data_directory.iterdir() if path.is_dir()}
    open_manager(data_directory).close(NOW_MS)
    after = {path.name: content(path) for path in data_directory.iterdir() if path.is_dir()}
    assert after == before
    assert (data_directory / ".kafka_cleanshutdown").exists()


def test_indexes_and_snapshots_are_rebuilt_as_kafka_wrote_them(data_directory):
    """From the ``.log`` files alone, as after a crash: the same bytes in every other file."""
    compared = 0
    for directory in sorted(data_directory.iterdir()):
        if not directory.is_dir() or directory.name.startswith("__cluster_metadata"):
            continue
        before = content(directory)
        for name in before:
            if not name.endswith((".log", ".metadata", "checkpoint")):
                (directory / name).unlink()
        topic, partition = directory.name.rsplit("-", 1)
        log = open_log(
            directory,
            topic,
            int(partition),
            LogConfig(index_interval_bytes=4096 if topic.startswith("__") else 512),
            disk=LazyDisk(),
            now_ms=NOW_MS,
            clean=False,
        )
        log.close(NOW_MS)
        newest = max((name for name in before if name.endswith(".snapshot")), default="")
        for name, data in before.items():
            if name.endswith(".snapshot") and name != newest:
                continue  # those of older segments are not needed any more
            assert (directory / name).read_bytes() == data, directory / name
            compared += 1
    assert compared > 100


def test_times_are_found_in_what_kafka_wrote(data_directory, expected):
    """For every codec: the first record with at least the time, by brute force over the rows."""
    manager = open_manager(data_directory)
    for key, rows in expected.items():
        name, isolation = key.split("/")
        if isolation == "read_committed" or not rows or name.startswith("txn"):
            continue
        topic, partition = name.rsplit("-", 1)
        log = manager.logs[topic, int(partition)]
        times = sorted({row[2] for row in rows})
        for time in (times[0] - 1, times[0], times[len(times) // 2] + 1, times[-1], times[-1] + 1):
            wanted = next(((row[0], row[2]) for row in rows if row[2] >= time), None)
            found = offset_for_timestamp(log, time, end_offset=log.log_end_offset)
            assert (found and (found.offset, found.timestamp)) == wanted, key
        largest = max_timestamp(log)
        assert largest is not None
        assert largest.timestamp == times[-1]
    manager.close(NOW_MS)


def test_topic_ids_and_the_cluster_id_are_taken_over(data_directory):
    """The directory keeps its identity."""
    manager = open_manager(data_directory)
    assert manager.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
    assert all(any(log.topic_id) for log in manager.logs.values())
    assert ("__cluster_metadata", 0) not in manager.logs
    manager.close(NOW_MS)
