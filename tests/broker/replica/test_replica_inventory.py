"""What a broker tells of the replicas that its data directories don't have."""

import errno
import logging
from pathlib import Path

import pytest

from kwire.broker.replica.replica_inventory import (
    SHOWN,
    log_copied_partitions,
    log_lost_partitions,
    open_entries,
    replicas_of,
)
from kwire.log.checkpoints import HIGH_WATERMARKS, write_offsets
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.metadata.changes import TopicCreated, apply
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from kwire.metadata.lost_replicas import NEVER_MADE, Replica

TOPIC_ID = bytes(range(16))


def test_a_log_that_had_a_high_watermark_is_lost_and_another_was_never_made(tmp_path: Path) -> None:
    """Somebody may have removed the first one: without it nobody else leads by itself."""
    tmp_path.joinpath("data").mkdir()
    write_offsets(tmp_path / "data" / HIGH_WATERMARKS, {("t", 0): 7, ("t", 1): 0}, Disk())
    manager = LogManager.open([tmp_path / "data"], node_id=1, now_ms=0)
    try:
        manager.get_or_create("t", 2, TOPIC_ID, LogConfig(), 0)
        held = replicas_of(manager)
        assert held("t", 0, TOPIC_ID) is None
        assert held("t", 1, TOPIC_ID) is NEVER_MADE
        [data] = manager.data_directories
        assert data.meta is not None
        assert held("t", 2, TOPIC_ID) == Replica(data.meta.directory_id, -1)
    finally:
        manager.close(0)


def test_a_directory_that_is_offline_is_no_open_entry(tmp_path: Path) -> None:
    """Nothing new can come to it, so a broker whose other directories are cordoned has no room."""
    entries = [str(tmp_path / name) for name in "ab"]
    for one in entries:
        Path(one).mkdir()
    manager = LogManager.open([Path(one) for one in entries], node_id=1, now_ms=0)
    try:
        assert open_entries(manager, entries) == tuple(entries)
        manager.data_directories[1].health.fail("it is away", OSError(errno.EIO, "I/O error"))
        assert open_entries(manager, entries) == (entries[0],)
    finally:
        manager.close(0)


def _image(*partitions: PartitionImage) -> MetadataImage:
    return apply(MetadataImage(), [TopicCreated(TopicImage("t", TOPIC_ID, partitions, 1))], 1)


def test_replicas_that_are_copied_anew_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An emptied directory fills again without an error, so that only this line tells of it.

    It is no warning while all directories of the last registration are here.
    """
    caplog.set_level(logging.INFO, "kwire.broker.replica.replica_inventory")
    tmp_path.joinpath("data").mkdir()
    follows = PartitionImage(2, 3, (1, 2), (2,))
    nobody_has_it = PartitionImage(-1, 3, (1, 2), ())
    elsewhere, in_sync = PartitionImage(2, 3, (2, 3), (2,)), PartitionImage(2, 3, (1, 2), (1, 2))
    image = _image(follows, follows, nobody_has_it, elsewhere, in_sync)
    manager = LogManager.open([tmp_path / "data"], node_id=1, now_ms=0)
    try:
        manager.get_or_create("t", 1, TOPIC_ID, LogConfig(), 0)
        [data] = manager.data_directories
        assert data.meta is not None
        same, gone = (
            BrokerImage(1, None, (), directories=(one,)) for one in (data.meta.directory_id, "gone")
        )
        for before in (None, same, gone):
            log_copied_partitions(manager, before, image, 1)
        levels = [logging.INFO, logging.INFO, logging.WARNING]
        assert [one.levelno for one in caplog.records] == levels
        for line in caplog.messages:
            assert "of 1 partition(s), which are lost, or were given to this broker" in line
            assert line.endswith("; it copies them from the other replicas: t-0")
        manager.get_or_create("t", 0, TOPIC_ID, LogConfig(), 0)
        log_copied_partitions(manager, gone, image, 1)
        assert len(caplog.messages) == len(levels)
    finally:
        manager.close(0)


def test_lost_partitions_are_named_with_a_command_that_is_complete(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kafka's tool takes one partition, so the command has the first one's name."""
    lost = PartitionImage(-1, 3, (1,), ())
    log_lost_partitions(_image(*[lost] * (SHOWN + 2)), 1)
    [line] = caplog.messages
    assert f"t-{SHOWN - 1} and 2 more; start the broker with the disk" in line
    assert line.endswith(
        "kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean "
        "--topic t --partition 0"
    )


def test_partitions_that_have_lost_all_their_replicas_are_named_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In one line of their own, however many there are."""
    log_lost_partitions(_image(*[PartitionImage(-1, 3, (1, 2), ())] * (SHOWN + 2)), 1)
    [line] = caplog.records
    assert line.levelno == logging.ERROR
    text = line.getMessage()
    assert f"of {SHOWN + 2} partition(s), of which this broker has one of several replicas" in text
    assert "stay without a leader: t-0, t-1, " in text
    assert f"t-{SHOWN - 1} and 2 more; if a disk that has them is found" in text
    assert text.endswith("--election-type unclean --topic t --partition 0")
