"""A partition's directory is read without a broker: what a consumer would see, nothing written."""

import gzip
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from kwire.log import open_partition
from kwire.record.batch import InvalidRecords

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def expected():
    """``topic-partition/isolation`` → rows as Kafka's consumer saw them."""
    with gzip.open(DATA / "kafka-4.4-expected.json.gz") as file:
        return json.load(file)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A data directory that Apache Kafka wrote."""
    directory = tmp_path_factory.mktemp("kafka")
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory / "logs"


def states(directory):
    """Name, size and time of every file."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_what_kafka_wrote_is_read_as_its_consumer_read_it(logs, expected):
    """Offsets, timestamps and sizes in both isolation levels, and not a file is touched."""
    before = states(logs)
    for key, rows in expected.items():
        name, isolation = key.split("/")
        partition = open_partition(logs / name)
        found = [(r.offset, r.timestamp) for r in partition.records(isolation=isolation)]
        assert found == [(row[0], row[2]) for row in rows], key
        assert partition.topic_id is not None
        middle = rows[len(rows) // 2][0] if rows else 0
        later = [r.offset for r in partition.records(middle, isolation)]
        assert later == [row[0] for row in rows if row[0] >= middle], key
    assert states(logs) == before


def test_the_bounds_of_a_log(logs):
    """Start, end and last stable offset; an open transaction holds the last one back."""
    partition = open_partition(str(logs / "codec-gzip-0"))
    assert (partition.topic, partition.partition) == ("codec-gzip", 0)
    assert (partition.log_start_offset, partition.end_offset) == (0, 1500)
    assert partition.last_stable_offset == 1500
    assert next(partition.batches(1381)).base_offset <= 1381


def test_wrong_indexes_do_no_harm(logs, tmp_path):
    """Missing, torn or lying: the records are the same."""
    partition = shutil.copytree(logs / "codec-none-0", tmp_path / "codec-none-0")
    indexes = sorted(partition.glob("*.index"))
    indexes[0].unlink()
    indexes[1].write_bytes(b"\xff\x00\x00\x10" * 200 + b"torn!")
    indexes[2].write_bytes(bytes(8) + (5).to_bytes(4, "big") + (3).to_bytes(4, "big"))
    wanted = [r.offset for r in open_partition(logs / "codec-none-0").records()]
    for offset in (0, 161, 170, 345, 400, 600, 1499):
        found = [r.offset for r in open_partition(partition).records(offset)]
        assert found == [other for other in wanted if other >= offset]


def test_a_torn_end_is_left_out_and_damage_is_told(logs, tmp_path):
    """The end of a log in use may be half written; a broken checksum in it is an error."""
    partition = shutil.copytree(logs / "codec-lz4-0", tmp_path / "codec-lz4-0")
    newest = max(partition.glob("*.log"))
    with newest.open("ab") as file:
        file.write(b"\0\0\0\0\0\0\x05\xdc\0\0")
    assert open_partition(partition).end_offset == 1500
    data = bytearray(newest.read_bytes())
    data[100] ^= 1
    newest.write_bytes(data)
    with pytest.raises(InvalidRecords, match="fails its checksum"):
        list(open_partition(partition).records())


def test_what_is_not_a_partition(tmp_path):
    """A directory that is missing, or has no number, is named."""
    with pytest.raises(FileNotFoundError, match="orders-0"):
        open_partition(tmp_path / "orders-0")
    with pytest.raises(ValueError, match="topic-partition"):
        open_partition(tmp_path)
    (tmp_path / "orders-1").mkdir()
    with pytest.raises(ValueError, match="isolation"):
        list(open_partition(tmp_path / "orders-1").records(isolation="committed"))


def test_producers_are_known_by_the_newest_sound_snapshot(tools):
    """Also those whose batches retention has removed; a damaged snapshot is passed over."""
    log = tools.open()
    tools.append(log, b"first", producer=(7, 0, 0), transactional=True)
    log.roll(tools.now_ms)
    tools.append(log, b"second", producer=(8, 0, 0))
    log.roll(tools.now_ms)
    tools.append(log, b"third", producer=(5, 0, 0))
    log.close(tools.now_ms)
    reader = open_partition(tools.directory)
    assert reader.largest_producer_id() == 8
    assert reader.last_stable_offset == 0
    for path in tools.directory.glob("0000000000000000000[01].log"):
        path.unlink()
    assert reader.largest_producer_id() == 8
    assert reader.last_stable_offset == 0
    for offset in (2, 3):
        (tools.directory / f"{offset:020d}.snapshot").write_bytes(b"damaged")
    assert reader.largest_producer_id() == 7
    for path in tools.directory.glob("*.snapshot"):
        path.unlink()
    assert reader.largest_producer_id() == 5
