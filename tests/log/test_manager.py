"""Data directories: identity, lock, checkpoints, clean and unclean stops, creating and deleting."""

import errno
import logging

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.log.data_directory import LogDirectoryError
from kwire.log.loading import LoadingStopped
from kwire.log.log_config import LogConfig
from kwire.log.manager import AtStop, LogManager
from kwire.log.partition_metadata import write_topic_id
from kwire.testing.faulty_disk import FaultyDisk
from tests.support.log_state import close_files
from tests.support.old_segments import delete_old_segments

ID_1, ID_2 = bytes([1] * 16), bytes([2] * 16)


@pytest.fixture
def open_manager(tools):
    """Open a manager on directories below the test's own."""

    def open_them(*names, node_id=1):
        paths = [tools.root / name for name in names or ("data",)]
        return LogManager.open(paths, node_id=node_id, now_ms=tools.now_ms, disk=tools.disk)

    return open_them


def create(manager, tools, topic="t", partition=0, topic_id=ID_1):
    """A partition with the default settings."""
    return manager.get_or_create(topic, partition, topic_id, LogConfig(), tools.now_ms)


def kill(manager):
    """What a kill -9 leaves: the locks are gone and nothing is flushed or marked."""
    for log in manager.logs.values():
        close_files(log)
    manager.close(0, clean=False)


def test_logs_are_found_again_after_a_clean_stop(tools, open_manager):
    """With their ids, offsets, and the cluster's id; the mark is gone as soon as it is used."""
    manager = open_manager()
    log = create(manager, tools, "a-topic-1", 3)
    tools.append(log, b"x")
    manager.close(tools.now_ms)
    mark = tools.root / "data" / ".kafka_cleanshutdown"
    assert mark.exists()
    again = open_manager()
    assert not mark.exists()
    assert again.cluster_id == manager.cluster_id
    found = again.logs["a-topic-1", 3]
    assert found.topic_id == ID_1
    assert tools.values(found) == [(0, b"x")]
    again.close(tools.now_ms)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stop_ends_a_recovery_at_any_point_and_harms_nothing(tools, open_manager, threads):
    """The next start recovers again, and finds every record."""
    manager = open_manager()
    for partition in range(3):
        tools.append(create(manager, tools, partition=partition), b"x")
    kill(manager)
    root = tools.root / "data"
    stops_after, is_stopped = 0, True
    while is_stopped:
        questions = iter(range(stops_after))
        try:
            LogManager.open(
                [root],
                node_id=1,
                now_ms=tools.now_ms,
                disk=tools.disk,
                recovery_threads=threads,
                is_stopped=lambda questions=questions: next(questions, None) is None,
            ).close(tools.now_ms, clean=False)
            is_stopped = False
        except LoadingStopped:
            assert not (root / ".kafka_cleanshutdown").exists()
            stops_after += 1
    assert stops_after >= 6, "before each of three logs, and while each is read"
    again = open_manager()
    assert [tools.values(again.logs["t", number]) for number in range(3)] == [[(0, b"x")]] * 3
    again.close(tools.now_ms)


def test_the_files_of_a_data_directory_are_kafkas(tools, open_manager):
    """Names and contents of checkpoints and meta.properties."""
    manager = open_manager()
    log = create(manager, tools)
    for _ in range(3):
        tools.append(log, b"x")
    log.advance_log_start_offset(2)
    manager.close(tools.now_ms, known=AtStop({("t", 0): 3}, 7))
    root = tools.root / "data"
    assert (root / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    assert (root / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    assert (root / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    assert (root / "cleaner-offset-checkpoint").read_text() == "0\n0\n"
    meta = dict(
        line.split("=")
        for line in (root / "meta.properties").read_text().splitlines()
        if "=" in line
    )
    assert set(meta) == {"version", "node.id", "cluster.id", "directory.id"}
    assert (meta["version"], meta["node.id"], meta["cluster.id"]) == ("1", "1", manager.cluster_id)
    assert open_manager().logs["t", 0].log_start_offset == 2


def test_an_unclean_stop_is_recovered_from_the_recovery_point(tools, open_manager, caplog):
    """Everything that was written is there; the checkpoint says where to begin."""
    manager = open_manager()
    log = create(manager, tools)
    tools.append(log, b"flushed")
    tools.append(log, b"too")
    log.flush(tools.now_ms)
    manager.checkpoint(lambda: {("t", 0): 1})
    tools.append(log, b"not flushed")
    kill(manager)
    with open(tools.root / "data" / "t-0" / f"{0:020d}.log", "ab") as file:
        file.write(b"torn")
    manager = open_manager()
    assert "not closed cleanly" in caplog.text
    log = manager.logs["t", 0]
    assert tools.values(log) == [(0, b"flushed"), (1, b"too"), (2, b"not flushed")]
    assert log.recovery_point == 1  # within the segment, whose indexes were not final
    manager.close(tools.now_ms)
    assert log.recovery_point == 3


def test_a_directory_in_use_or_of_somebody_else_is_refused(tools, open_manager):
    """One line that says what to do, and nothing is touched."""
    manager = open_manager()
    with pytest.raises(LogDirectoryError, match="in use"):
        open_manager()
    manager.close(tools.now_ms)
    with pytest.raises(LogDirectoryError, match=r"node\.id 1, not 2"):
        open_manager(node_id=2)
    blocked = tools.root / "file"
    blocked.write_text("")
    with pytest.raises(LogDirectoryError, match=r"file: it is not a directory"):
        open_manager("file")
    other = open_manager("other")
    other.close(tools.now_ms)
    with pytest.raises(LogDirectoryError, match="belongs to cluster"):
        open_manager("data", "other")
    open_manager().close(tools.now_ms)


def test_a_start_that_fails_says_it_once(tmp_path, caplog):
    """In the error where no directory is left, in the log where some are."""
    paths, disk = [tmp_path / "a", tmp_path / "b"], FaultyDisk()
    LogManager.open(paths, node_id=1, now_ms=0, disk=disk).close(0)
    for broken, problem in (
        (tmp_path / "a", "cannot write to it: Read-only file system"),
        (tmp_path / "a" / ".kafka_cleanshutdown", "cannot remove the mark of a clean stop"),
    ):
        disk.broken = {broken: errno.EROFS}
        with pytest.raises(LogDirectoryError, match=problem):
            LogManager.open(paths[:1], node_id=1, now_ms=0, disk=disk)
        assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []
        LogManager.open(paths, node_id=1, now_ms=0, disk=disk).close(0)
        [said] = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
        assert problem in said
        caplog.clear()


def test_new_partitions_go_to_the_directory_with_the_fewest(tools, open_manager):
    """log.dirs with several entries, found again in theirs."""
    manager = open_manager("a", "b")
    for partition in range(4):
        create(manager, tools, "t", partition)
    names = [manager.logs["t", n].directory.parent.name for n in range(4)]
    assert sorted(names) == ["a", "a", "b", "b"]
    manager.close(tools.now_ms)
    again = open_manager("a", "b")
    assert [again.logs["t", n].directory.parent.name for n in range(4)] == names
    again.close(tools.now_ms)


def test_logs_may_come_while_it_is_looked_what_is_due(tools, open_manager):
    """Threads make logs and delete them meanwhile."""
    manager = open_manager()

    class Coming:
        is_offline = False

        @property
        def doomed(self):
            manager.logs["t", len(manager.logs)] = self
            return []

    manager.logs["t", 0] = Coming()
    assert not manager.has_doomed(tools.now_ms)
    assert len(manager.logs) == 2
    manager.logs.clear()
    manager.close(tools.now_ms)


def test_old_segments_are_removed_later(tools, open_manager):
    """Their files have another name until then."""
    manager = open_manager()
    log = create(manager, tools)
    log.update_config(LogConfig(retention_ms=1, file_delete_delay_ms=60_000))
    tools.append(log, b"x")
    assert delete_old_segments(log, tools.now_ms + 2, 1, tools.disk, 1000) == 1
    assert not manager.has_doomed(60_999)
    assert manager.has_doomed(61_000)
    manager.remove_doomed(61_000)
    assert not list(log.directory.glob("*.deleted"))
    assert not manager.has_doomed(61_000)
    manager.close(tools.now_ms)


def test_deleting_renames_at_once_and_removes_later(tools, open_manager):
    """``topic-N.<32 hex digits>-delete``, then nothing; also when the broker stops in between."""
    manager = open_manager()
    root = tools.root / "data"
    tools.append(create(manager, tools), b"x")
    manager.delete("t", 0, tools.now_ms)
    (doomed,) = [path for path in root.iterdir() if path.is_dir()]
    assert doomed.name.startswith("t-0.")
    assert doomed.name.endswith("-delete")
    assert len(doomed.name) == len("t-0.") + 32 + len("-delete")
    manager.remove_doomed(tools.now_ms + 59_999)
    assert doomed.exists()
    manager.remove_doomed(tools.now_ms + 60_000)
    assert not doomed.exists()
    create(manager, tools, "u")
    manager.delete("u", 0, tools.now_ms)
    kill(manager)
    manager = open_manager()
    assert manager.logs == {}
    assert not [path for path in root.iterdir() if path.is_dir()]
    manager.close(tools.now_ms)


def test_a_wrong_count_of_logs_keeps_none_from_being_deleted(tools, open_manager):
    """It only says where the next log is made."""
    manager = open_manager()
    create(manager, tools)
    manager.counts = dict.fromkeys(manager.counts, 0)
    manager.delete("t", 0, tools.now_ms)
    [doomed] = [path for path in (tools.root / "data").iterdir() if path.is_dir()]
    assert doomed.name.endswith("-delete")
    manager.close(tools.now_ms)


def test_a_recreated_topic_gets_an_empty_log_and_the_old_one_is_dead(tools, open_manager):
    """Whoever holds the old log can't write into the new one, nor read from it."""
    manager = open_manager()
    old = create(manager, tools)
    tools.append(old, b"old")
    manager.delete("t", 0, tools.now_ms)
    new = create(manager, tools, topic_id=ID_2)
    tools.append(new, b"new")
    with pytest.raises(KafkaError) as refused:
        tools.append(old, b"late")
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert tools.values(new) == [(0, b"new")]
    manager.close(tools.now_ms)


def test_a_leftover_of_a_deleted_topic_is_put_out_of_the_way(tools, open_manager):
    """The metadata forgot the topic, the crash came before the directory was renamed."""
    manager = open_manager()
    tools.append(create(manager, tools, topic_id=ID_1), b"old")
    manager.close(tools.now_ms)
    manager = open_manager()
    log = create(manager, tools, topic_id=ID_2)
    assert (log.log_end_offset, log.topic_id) == (0, ID_2)
    manager.close(tools.now_ms)


def test_a_log_without_an_id_is_adopted_not_deleted(tools, open_manager):
    """partition.metadata may be missing; the records are worth more than the file."""
    manager = open_manager()
    tools.append(create(manager, tools), b"x")
    manager.close(tools.now_ms)
    (tools.root / "data" / "t-0" / "partition.metadata").unlink()
    manager = open_manager()
    assert tools.values(create(manager, tools, topic_id=ID_2)) == [(0, b"x")]
    manager.close(tools.now_ms)
    assert open_manager().logs["t", 0].topic_id == ID_2


@pytest.mark.parametrize(
    "content", ["", "0\n", "1\n0\n", "0\n2\nt 0 5\n", "0\n1\nt x 5\n", "0\n1\nt 0\n", "garbage"]
)
def test_a_broken_checkpoint_costs_time_not_data(tools, open_manager, caplog, content):
    """It counts as empty, with a warning; recovery begins at the beginning."""
    manager = open_manager()
    tools.append(create(manager, tools), b"x")
    manager.close(tools.now_ms)
    root = tools.root / "data"
    (root / "recovery-point-offset-checkpoint").write_text(content)
    (root / ".kafka_cleanshutdown").unlink()
    manager = open_manager()
    assert "broken" in caplog.text
    assert tools.values(manager.logs["t", 0]) == [(0, b"x")]
    manager.close(tools.now_ms)


def test_rolled_segments_are_flushed_by_the_checkpoint(tools, open_manager):
    """The recovery point follows without anybody's append waiting for the disk."""
    manager = open_manager()
    log = create(manager, tools)
    tools.append(log, b"x")
    log.roll(tools.now_ms)
    tools.append(log, b"y")
    manager.checkpoint(dict)
    checkpoint = tools.root / "data" / "recovery-point-offset-checkpoint"
    assert checkpoint.read_text() == "0\n1\nt 0 1\n"
    log.roll(tools.now_ms)
    tools.disk.fails_sync = True
    assert not manager.checkpoint(dict)
    assert log.is_offline
    assert log.recovery_point == 1
    tools.disk.fails_sync = False
    manager.close(tools.now_ms)
    assert not (tools.root / "data" / ".kafka_cleanshutdown").exists()
    assert tools.append(open_manager().logs["t", 0], b"z") == 2


def test_offsets_of_a_deleted_partition_do_not_count_for_a_new_one(tools, open_manager):
    """Its checkpoints go, or a crash would take the new one's records for deleted ones, or for
    replicated ones.
    """
    manager = open_manager()
    log = create(manager, tools)
    for _ in range(5):
        tools.append(log, b"old")
    log.advance_log_start_offset(4)
    assert manager.checkpoint(lambda: {("t", 0): 5})
    manager.delete("t", 0, tools.now_ms)
    log = manager.get_or_create("t", 0, ID_2, log.config, tools.now_ms)
    tools.append(log, b"new")
    manager.close(tools.now_ms, clean=False)
    again = open_manager()
    log = again.logs["t", 0]
    assert tools.values(log) == [(0, b"new")]
    assert log.recovery_point == again.high_watermark_before(log) == 0


def test_a_log_that_is_made_during_a_checkpoint_is_not_taken_for_replicated(tools, open_manager):
    """The broker looked up the high watermarks before that; followers may lack its records."""
    manager = open_manager()
    looked_up = {("t", 0): tools.append(create(manager, tools), b"x") + 1}
    tools.append(create(manager, tools, partition=1), b"y")
    assert manager.checkpoint(lambda: looked_up)
    manager.close(tools.now_ms, clean=False)
    again = open_manager()
    found = [again.high_watermark_before(again.logs["t", index]) for index in range(2)]
    assert found == [1, 0]


def test_a_partition_whose_files_are_lost_begins_anew(tools, open_manager):
    """Its directory was there for good before the file of its first segment was."""
    manager = open_manager()
    create(manager, tools)
    (tools.root / "data" / "t-0" / f"{0:020d}.log").unlink()
    manager.close(tools.now_ms, clean=False)
    assert tools.append(open_manager().logs["t", 0], b"new") == 0


@pytest.mark.parametrize(
    "files",
    [
        {"partition.metadata": b"\xff\xfe garbage"},
        {"partition.metadata": b"version: 7\n"},
        {"00000000000000000000.log": b"garbage" * 100},
    ],
)
def test_what_is_in_the_way_of_a_new_log_is_put_aside(tools, open_manager, files):
    """Whatever it is: the topic is created, and nothing is thrown away."""
    manager = open_manager()
    path = tools.root / "data" / "t-0"
    path.mkdir()
    for name, content in files.items():
        (path / name).write_bytes(content)
    opened = create(manager, tools)
    assert opened.directory == path
    assert opened.log_end_offset == 0
    [aside] = [found for found in path.parent.iterdir() if found.name.endswith("-stray")]
    assert {f.name: f.read_bytes() for f in aside.iterdir()} == files
    manager.close(tools.now_ms)


def test_what_a_failed_creation_left_is_used_again(tools, open_manager):
    """Its topic id is this one's, so it isn't put aside at every new try."""
    manager = open_manager()
    path = tools.root / "data" / "t-0"
    path.mkdir()
    (path / "partition.metadata.tmp").write_bytes(b"")
    write_topic_id(path, ID_1, tools.disk)
    create(manager, tools)
    assert not [found for found in path.parent.iterdir() if found.name.endswith("-stray")]
    manager.close(tools.now_ms)
