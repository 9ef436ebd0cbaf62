"""A directory that Apache Kafka closed is served as it was, and left alone where it can't be."""

import gzip
import json
import re
import shutil
import tarfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kwire.broker.kafka_import import PRODUCER_IDS_LEFT_TO_KAFKA, KafkaImportError, plan_import
from kwire.log import open_partition
from kwire.metadata.image import ConfigResourceType
from kwire.server import StartError
from tests.support.in_process import running_server

DATA = Path(__file__).parent.parent / "data"
DIRECTORY_ID = re.compile(r"directory\.id=\S{8}")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The directory as Kafka left it; tests work on copies."""
    directory = tmp_path_factory.mktemp("kafka")
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as packed:
        packed.extractall(directory, filter="data")
    return directory / "logs"


@pytest.fixture
def logs(archive, tmp_path):
    """A copy of Kafka's data directory."""
    copied = shutil.copytree(archive, tmp_path / "logs")
    (copied / ".lock").touch()
    return copied


def names(directory):
    """Every file with its size."""
    return {path: path.stat().st_size for path in directory.rglob("*") if path.is_file()}


@asynccontextmanager
async def served(directory, **settings):
    """The broker that serves a directory."""
    async with running_server(directory, settings) as server:
        yield server.broker


async def refusal(directory, settings=None):
    """The one line with which a server refuses a directory."""
    with pytest.RaisesGroup(StartError) as caught:
        async with running_server(directory, settings):
            pass
    return str(caught.value.exceptions[0])


async def test_everything_comes_over(logs):
    """Cluster and topic ids, partitions, configs, producer ids, committed offsets."""
    with gzip.open(DATA / "kafka-4.4-expected.json.gz") as file:
        keys = {key.split("/")[0] for key in json.load(file)}
    async with served(logs) as broker:
        assert broker.cluster_id == CLUSTER_ID
        assert keys <= {f"{p.topic}-{p.index}" for p in broker.partitions()}
        for partition in broker.partitions():
            assert partition.topic_id == open_partition(partition.log.directory).topic_id
            assert partition.leader_epoch == partition.log.leader_epochs.latest
        config = broker.image.config(ConfigResourceType.TOPIC, "__consumer_offsets")
        assert config["cleanup.policy"] == "compact"
        assert broker.image.next_producer_id == 1000 + PRODUCER_IDS_LEFT_TO_KAFKA
        assert broker.image.features["metadata.version"] == 33


async def test_what_happens_later_is_kept(logs):
    """It is taken over once; from then on kwire's own metadata count."""
    async with served(logs) as broker:
        ids = {topic.name: topic.topic_id for topic in broker.image.topics_by_name.values()}
        first = await broker.producer_ids.next()
    async with served(logs) as broker:
        assert await broker.producer_ids.next() > first
        assert {t.name: t.topic_id for t in broker.image.topics_by_name.values()} == ids


async def test_without_kafkas_metadata(logs):
    """Topics are known by their directories; ids of producers and topics are not used again."""
    shutil.rmtree(logs / "__cluster_metadata-0")
    wanted = {path.name: open_partition(path).topic_id for path in logs.iterdir() if path.is_dir()}
    async with served(logs) as broker:
        assert {f"{p.topic}-{p.index}": p.topic_id for p in broker.partitions()} == wanted
        config = broker.image.config(ConfigResourceType.TOPIC, "__consumer_offsets")
        assert config["cleanup.policy"] == "compact"
        assert broker.image.next_producer_id == 1000


async def test_several_directories(logs, tmp_path):
    """All of Kafka's log.dirs are needed; one alone is refused, and nothing in it is changed."""
    other = tmp_path / "other"
    other.mkdir()
    (logs / "codec-zstd-0").rename(other / "codec-zstd-0")
    meta = (logs / "meta.properties").read_text()
    (other / "meta.properties").write_text(DIRECTORY_ID.sub("directory.id=aaaaaaaa", meta))
    (other / ".kafka_cleanshutdown").touch()
    async with served(f"{logs},{other}") as broker:
        assert broker.partition("codec-zstd", 0).log.log_end_offset == 1500


async def test_metadata_in_a_directory_of_its_own(logs, tmp_path):
    """Where Kafka had metadata.log.dir, kwire looks there too."""
    own = tmp_path / "metadata"
    own.mkdir()
    (logs / "__cluster_metadata-0").rename(own / "__cluster_metadata-0")
    settings = {"metadata.log.dir": str(own)}
    for _ in range(2):
        async with running_server(logs, settings) as server:
            config = server.broker.image.config(ConfigResourceType.TOPIC, "appendtime")
            assert config["message.timestamp.type"] == "LogAppendTime"


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("elsewhere", "codec-gzip-0 is in none of"),
        ("another topic", r"belongs to topic id [\w-]{22}, but Kafka's metadata has [\w-]{22} for"),
        ("damaged", "fails its checksum"),
        ("newer", "unknown type"),
        ("gap", "are gone"),
    ],
)
def test_what_cannot_be_taken_over_is_left_alone(logs, damage, problem):
    """One line that names the path, and every file as it was."""
    metadata = logs / "__cluster_metadata-0"
    log_file = metadata / f"{0:020d}.log"
    if damage == "elsewhere":
        shutil.rmtree(logs / "codec-gzip-0")
        text = (logs / "meta.properties").read_text()
        (logs / "meta.properties").write_text(DIRECTORY_ID.sub("directory.id=zuWXPwcg", text))
    elif damage == "another topic":
        path = logs / "codec-gzip-0" / "partition.metadata"
        shutil.copy(logs / "codec-lz4-0" / "partition.metadata", path)
    elif damage == "damaged":
        data = bytearray(log_file.read_bytes())
        data[300] ^= 1
        log_file.write_bytes(data)
    elif damage == "newer":
        log_file.write_bytes(newer_record())
    else:
        log_file.rename(metadata / f"{99:020d}.log")
    before = names(logs)
    with pytest.raises(KafkaImportError, match=problem) as caught:
        plan_import([logs], 1)
    assert str(logs) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert names(logs) == before


def newer_record():
    """A batch with a metadata record that only a newer Kafka knows."""
    from kwire.record.records import Record, build_batch

    return build_batch([Record(0, 0, None, bytes([1, 120, 0]))])


async def test_another_nodes_directory(logs):
    """It is refused as any other is, and no file is changed."""
    before = names(logs)
    assert "belongs to node.id 1, not 7" in await refusal(logs, {"node.id": "7"})
    assert names(logs) == before


async def test_kafka_has_gone_on_with_it(logs):
    """Two metadata that differ are not mixed: the start says what to do."""
    async with served(logs):
        pass
    log_file = logs / "__cluster_metadata-0" / f"{0:020d}.log"
    data = log_file.read_bytes()
    log_file.write_bytes(data + newer_record_at(155))
    assert "Apache Kafka has used" in await refusal(logs)
    assert (logs / ".kafka_cleanshutdown").exists()
    shutil.rmtree(logs / "__cluster_metadata-0")
    async with served(logs) as broker:
        assert broker.partition("codec-zstd", 0).log.log_end_offset == 1500


def newer_record_at(offset):
    """A batch with a record that does nothing."""
    from kwire.record.records import Record, build_batch

    return build_batch([Record(offset, 0, None, bytes([1, 20, 0, 0]))], base_offset=offset)


def test_an_empty_directory_has_nothing_to_take_over(tmp_path):
    """And one that is missing neither."""
    assert plan_import([tmp_path, tmp_path / "missing"], 1) is None


def test_a_partition_that_is_missing(tmp_path):
    """Without Kafka's metadata nobody knows how many there were."""
    (tmp_path / "orders-1").mkdir()
    with pytest.raises(KafkaImportError, match="orders-0 is in none"):
        plan_import([tmp_path], 1)
    (tmp_path / "orders-1").rename(tmp_path / "orders-2")
    (tmp_path / "orders-3").mkdir()
    with pytest.raises(KafkaImportError, match="orders-0 is in none"):
        plan_import([tmp_path], 1)
    (tmp_path / "orders-2").rename(tmp_path / "orders-0")
    (tmp_path / "orders-3").rmdir()
    with pytest.raises(KafkaImportError, match=r"orders-0 has no partition\.metadata"):
        plan_import([tmp_path], 1)
