"""The small files beside the segments: sparse indexes, epochs, identity; and the settings."""

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.config import topic_settings
from kwire.config.broker import BrokerConfig
from kwire.log.disk import Disk
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.log_config import LogConfig
from kwire.log.meta_properties import (
    MetaProperties,
    random_id,
    read_meta_properties,
    write_meta_properties,
)
from kwire.log.partition_metadata import read_topic_id, write_topic_id
from kwire.log.sparse_index import OffsetIndex, TimeIndex
from kwire.record.compression import Compression
from tests.support.log_state import leader_epochs


@pytest.fixture(scope="module")
def index_path(tmp_path_factory):
    """Where an index may be; every example begins with a new one."""
    return tmp_path_factory.mktemp("index") / "0.index"


@pytest.mark.hypothesis
@given(
    keys=st.lists(st.integers(0, 200), unique=True, max_size=30).map(sorted),
    cut=st.integers(0, 200),
)
def test_an_index_finds_what_a_sorted_list_finds(index_path, keys, cut):
    """Floor of every key, before and after a cut and after closing and loading."""
    index_path.unlink(missing_ok=True)
    index = OffsetIndex(index_path.parent, index_path.name, Disk(), 1024)
    for key in keys:
        index.append(key, key * 10)
    for _ in range(3):
        for wanted in range(-1, 202, 7):
            place = bisect_right(keys, wanted)
            expected = (keys[place - 1], keys[place - 1] * 10) if place else None
            assert index.floor(wanted) == expected
        index.truncate_to(cut)
        keys = [key for key in keys if key < cut]
        assert index.last == ((keys[-1], keys[-1] * 10) if keys else (-1, -1))
        index.trim()
        index.close()
        index = OffsetIndex(index_path.parent, index_path.name, Disk(), 1024)
        assert index.load()
    index.close()


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@pytest.mark.parametrize("power", [0.3, 1, 3])
def test_a_long_index_finds_what_a_sorted_list_finds(tmp_path, monkeypatch, kind, power):
    """By either number, however they grow, and with few reads."""
    keys = sorted({int(50_000_000 * (n / 3000) ** power) for n in range(1, 3001)})
    entries = [(key, 7 + key // 2 * 3) for key in keys]
    disk = Disk()
    index = kind(tmp_path, "0.index", disk, 100_000)
    index.replace(b"".join(kind.ENTRY.pack(*entry) for entry in entries))
    reads = []
    pread = disk.pread

    def counted(*arguments):
        reads.append(arguments)
        return pread(*arguments)

    monkeypatch.setattr(disk, "pread", counted)
    wanted = range(-1, entries[-1][1] + 3, 250_007)
    for by_second in (False, True):
        column = [entry[by_second] for entry in entries]
        for key in (*wanted, *column[:5], *column[-5:], *column[250:260]):
            place = bisect_right(column, key)
            expected = entries[place - 1] if place else None
            assert index.floor(key, by_second=by_second) == expected
            place = bisect_left(column, key)
            expected = entries[place] if place < len(column) else None
            assert index.ceiling(key, by_second=by_second) == expected
    assert len(reads) / (4 * len(wanted)) < 5
    index.close()


def test_an_index_is_preallocated_while_it_is_written(tmp_path):
    """As long as segment.index.bytes allows, in whole entries, zeros at the end; sparse on disk."""
    index = TimeIndex(tmp_path, "0.timeindex", Disk(), 10_000_000)
    index.append(5, 1)
    assert index.path.stat().st_size == 9_999_996
    assert index.path.stat().st_blocks * 512 < 100_000
    assert index.path.read_bytes()[12:].strip(b"\0") == b""
    index.trim()
    assert index.path.read_bytes() == (5).to_bytes(8, "big") + (1).to_bytes(4, "big")
    index.close()


def test_a_time_index_keeps_a_place_for_the_closing_entry(tmp_path):
    """It is full one entry earlier than an offset index of its size."""
    index = TimeIndex(tmp_path, "0.timeindex", Disk(), 24)
    assert not index.is_full
    index.append(1, 1)
    assert index.is_full
    index.append(2, 2)
    index.close()
    offsets = OffsetIndex(tmp_path, "0.index", Disk(), 16)
    offsets.append(1, 1)
    assert not offsets.is_full
    offsets.close()


@pytest.mark.parametrize("entries", [((5, 10), (3, 20)), ((3, 20), (5, 10)), ((0, 0), (-1, 9))])
def test_an_index_whose_ends_cannot_be_right_is_not_taken(tmp_path, entries):
    """Neither number may fall, and none is below 0."""
    content = b"".join(OffsetIndex.ENTRY.pack(*entry) for entry in entries)
    (tmp_path / "0.index").write_bytes(content)
    index = OffsetIndex(tmp_path, "0.index", Disk(), 1024)
    assert not index.load()
    index.close()


def test_epochs_are_kept_in_kafkas_file(tmp_path):
    """Added, conflicting ones replaced, cut at both ends; all of it is saved later, in a thread."""
    epochs = LeaderEpochs(tmp_path, Disk())
    path = tmp_path / "leader-epoch-checkpoint"
    for epoch, start in ((0, 0), (2, 10), (1, 12), (5, 20)):
        epochs.assign(epoch, start)
    assert not path.exists()
    assert not epochs.is_saved
    epochs.save()
    assert epochs.is_saved
    assert path.read_text() == "0\n3\n0 0\n2 10\n5 20\n"
    assert [epochs.epoch_of(offset) for offset in (0, 9, 10, 25)] == [0, 0, 2, 5]
    epochs.assign(6, 20)
    assert epochs.entries == [(0, 0), (2, 10), (6, 20)]
    epochs.truncate_from_start(15)
    assert path.read_text() == "0\n3\n0 0\n2 10\n5 20\n"
    epochs.save()
    assert LeaderEpochs.read(tmp_path, Disk()).entries == [(2, 15), (6, 20)]
    epochs.truncate_from_end(20)
    epochs.save()
    assert path.read_text() == "0\n1\n2 15\n"
    assert epochs.epoch_of(3) == -1
    epochs.clear()
    assert epochs.latest == -1


def test_epochs_that_recovery_finds_come_before_those_that_are_newer_than_all_of_them(tmp_path):
    """The others are known from the batches."""
    epochs = LeaderEpochs(tmp_path, Disk())
    for epoch, start in ((3, 30), (6, 60)):
        epochs.assign(epoch, start)
    epochs.prepend([(2, 15), (3, 31)])
    assert epochs.entries == [(2, 15), (3, 31), (6, 60)]


@pytest.mark.parametrize(
    "content",
    [
        *("", "0\n1\nx y\n", "0\n3\n0 0\n", "0\n1\n0\n", "0\n2\n5 7\n3 9\n", "0\n2\n3 7\n5 6\n"),
        *("0\n1\n2147483648 3\n", "0\n1\n-1 0\n", "0\n1\n0 9223372036854775808\n"),
    ],
)
def test_a_broken_epoch_file_counts_as_empty(tmp_path, caplog, content):
    """The batches know their epochs."""
    (tmp_path / "leader-epoch-checkpoint").write_text(content)
    assert LeaderEpochs.read(tmp_path, Disk()).entries == []
    assert "broken" in caplog.text


def test_epochs_are_learnt_from_the_batches_after_a_crash(tools):
    """When the checkpoint is lost."""
    log = tools.open()
    for epoch in (1, 1, 4):
        log.append(tools.batch(b"a"), leader_epoch=epoch, now_ms=tools.now_ms)
    assert not (tools.directory / "leader-epoch-checkpoint").exists()
    assert leader_epochs(tools.open(clean=False)) == [(1, 0), (4, 2)]


def test_meta_properties(tmp_path):
    """Written and read; one that can't be right says why."""
    meta = MetaProperties(random_id(), 3, random_id())
    write_meta_properties(tmp_path, meta, Disk())
    assert read_meta_properties(tmp_path, Disk()) == meta
    path = tmp_path / "meta.properties"
    path.write_text("version=0\nbroker.id=1\n")
    with pytest.raises(ValueError, match="version 0"):
        read_meta_properties(tmp_path, Disk())
    path.write_text("version=1\nnode.id=1\n")
    with pytest.raises(ValueError, match=r"cluster\.id"):
        read_meta_properties(tmp_path, Disk())
    path.unlink()
    assert read_meta_properties(tmp_path, Disk()) is None


def test_partition_metadata(tmp_path):
    """KIP-516's file, byte for byte."""
    topic_id = bytes(range(16))
    write_topic_id(tmp_path, topic_id, Disk())
    path = tmp_path / "partition.metadata"
    assert path.read_bytes() == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_topic_id(tmp_path, Disk()) == topic_id
    path.write_text("version: 7\n")
    with pytest.raises(ValueError, match="version 7"):
        read_topic_id(tmp_path, Disk())


def test_settings_of_a_topic_become_those_of_its_log():
    """Kafka's defaults, and what a topic says otherwise."""
    broker = BrokerConfig.load({})
    config = LogConfig.from_settings(topic_settings({}, broker), broker)
    assert config == LogConfig()
    given_values = {
        "cleanup.policy": "compact,delete",
        "compression.type": "zstd",
        "message.timestamp.type": "LogAppendTime",
        "retention.bytes": "5000000",
        "segment.ms": "7",
    }
    config = LogConfig.from_settings(topic_settings(given_values, broker), broker)
    assert (config.compact, config.delete, config.log_append_time) == (True, True, True)
    assert config.compression is Compression.ZSTD
    assert (config.retention_bytes, config.segment_ms) == (5_000_000, 7)
