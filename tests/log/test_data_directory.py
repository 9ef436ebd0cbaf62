"""Data directories: nobody else writes to them, and their checkpoints never go back."""

import shutil
import subprocess
import sys
import threading

import pytest

from kwire.log.checkpoints import LOG_START_OFFSETS, read_offsets
from kwire.log.data_directory import LOCK_FILE, DataDirectory, LogDirectoryError
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from tests.support.log_state import base_offsets

LOCK_AS_A_JVM_DOES = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("refused", flush=True)
    else:
        print("locked", flush=True)
        sys.stdin.read()
"""


class SlowDisk(Disk):
    """A disk that lets the first replacement of a file wait when it is told to."""

    def __init__(self) -> None:
        self.is_slow = False
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def write_atomically(self, path, content, *, durable=True):
        """Replace a file, later for the one who comes first."""
        if self.is_slow:
            self.is_slow = False
            self.waits.set()
            assert self.go_on.wait(10)
        super().write_atomically(path, content, durable=False)


def jvm(path):
    """A process that locks a directory as Apache Kafka does."""
    command = [sys.executable, "-c", LOCK_AS_A_JVM_DOES, path / LOCK_FILE]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_jvm_cannot_open_what_is_open_here_nor_the_other_way_round(tmp_path):
    data = DataDirectory(tmp_path, Disk())
    with jvm(tmp_path) as process:
        assert process.communicate()[0] == "refused\n"
    data.close(clean=False)
    with jvm(tmp_path) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(LogDirectoryError, match="in use by another process"):
            DataDirectory(tmp_path, Disk())
        process.communicate()


def test_a_slow_checkpoint_never_replaces_a_newer_one(tools, tmp_path):
    disk = SlowDisk()
    manager = LogManager.open([tmp_path], node_id=1, now_ms=tools.now_ms, disk=disk)
    log = manager.get_or_create("t", 0, tools.topic_id, LogConfig(), tools.now_ms)
    for value in (b"a", b"b", b"c"):
        tools.append(log, value)
    log.advance_log_start_offset(1)
    disk.is_slow = True
    older = threading.Thread(target=manager.checkpoint, args=(dict,))
    older.start()
    assert disk.waits.wait(10)
    log.advance_log_start_offset(2)
    newer = threading.Thread(target=manager.checkpoint, args=(dict,))
    newer.start()
    newer.join(0.05)
    disk.go_on.set()
    older.join()
    newer.join()
    assert read_offsets(tmp_path / LOG_START_OFFSETS, disk) == {("t", 0): 2}
    manager.close(tools.now_ms, clean=False)


def open_both(tmp_path):
    """A manager on the directories a and b."""
    return LogManager.open([tmp_path / "a", tmp_path / "b"], node_id=1, now_ms=0)


def test_a_partition_in_two_directories_stops_the_start(tmp_path):
    """A move that broke off, or a copy: which of the two counts is for a person to decide."""
    manager = open_both(tmp_path)
    log = manager.get_or_create("t", 0, bytes([1] * 16), LogConfig(), 0)
    manager.close(0)
    other = tmp_path / ("b" if log.directory.parent == tmp_path / "a" else "a")
    shutil.copytree(log.directory, other / "t-0")
    with pytest.raises(LogDirectoryError, match=r"a/t-0 and .*b/t-0 hold the same log"):
        open_both(tmp_path)
    shutil.rmtree(other / "t-0")
    open_both(tmp_path).close(0)


def test_mistakes_in_log_dirs(tmp_path):
    """A directory that is named twice, in whatever spelling, and one that is a copy."""
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(LogDirectoryError, match="named twice"):
        LogManager.open([tmp_path / "a", tmp_path / "link"], node_id=1, now_ms=0)
    LogManager.open([tmp_path / "a"], node_id=1, now_ms=0).close(0)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(LogDirectoryError, match=r"the same directory\.id"):
        open_both(tmp_path)


def test_an_id_that_is_missing_is_given_once(tmp_path):
    """meta.properties of an older Kafka has no directory.id; cluster and node stay."""
    path = tmp_path / "a" / "meta.properties"
    path.parent.mkdir()
    path.write_text("version=1\ncluster.id=c\nnode.id=1\n")
    found = []
    for _ in range(2):
        manager = LogManager.open([tmp_path / "a"], node_id=1, now_ms=0)
        assert manager.cluster_id == "c"
        manager.close(0)
        found.append(path.read_text())
    assert "directory.id=" in found[0]
    assert found[0] == found[1]


def test_two_directories_without_an_id_are_no_copies(tmp_path):
    """A JBOD of a Kafka before 3.7, which gave no directory.id."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    open_both(tmp_path).close(0)
    ids = {(tmp_path / name / "meta.properties").read_text() for name in ("a", "b")}
    assert len(ids) == 2


def test_a_refused_start_claims_nothing(tmp_path):
    """Else the node.id that was wrong would refuse the start with the right one."""
    LogManager.open([tmp_path / "old"], node_id=1, now_ms=0).close(0)
    both = [tmp_path / "new", tmp_path / "old"]
    with pytest.raises(LogDirectoryError, match=r"old belongs to node\.id 1, not 2"):
        LogManager.open(both, node_id=2, now_ms=0)
    LogManager.open(both, node_id=1, now_ms=0).close(0)


def test_what_was_claimed_is_given_back_until_it_is_used(tmp_path):
    """The identity goes that this start has given; an earlier one and its directory.id stay."""
    for node_id in (1, 2):
        manager = LogManager.open([tmp_path], node_id=node_id, now_ms=0)
        (data,) = manager.data_directories
        data.give_back()
        manager.close(0)
    LogManager.open([tmp_path], node_id=3, now_ms=0).close(0)
    kept = (tmp_path / "meta.properties").read_bytes()
    manager = LogManager.open([tmp_path], node_id=3, now_ms=0)
    (data,) = manager.data_directories
    data.give_back()
    manager.close(0)
    assert (tmp_path / "meta.properties").read_bytes() == kept


def test_who_claimed_an_empty_directory_may_be_forgotten(tmp_path):
    """A start that was killed couldn't give it back; the message names the file to remove."""
    remedy = f"or remove {tmp_path / 'meta.properties'}: the directory has no data"
    manager = LogManager.open([tmp_path], node_id=1, now_ms=0)
    cluster_id = manager.cluster_id
    manager.close(0)
    for node_id, cluster in ((2, cluster_id), (1, "another")):
        with pytest.raises(LogDirectoryError) as refused:
            LogManager.open([tmp_path], node_id=node_id, now_ms=0, cluster_id=cluster)
        assert str(refused.value).endswith(remedy)
    manager = LogManager.open([tmp_path], node_id=1, now_ms=0)
    manager.get_or_create("t", 0, bytes([1] * 16), LogConfig(), 0)
    manager.close(0)
    for node_id, cluster in ((2, cluster_id), (1, "another")):
        with pytest.raises(LogDirectoryError) as refused:
            LogManager.open([tmp_path], node_id=node_id, now_ms=0, cluster_id=cluster)
        assert "remove" not in str(refused.value)


def test_what_was_put_aside_stays_aside(tmp_path, caplog):
    """-future is left alone and named, -stray counted; -delete is removed."""
    directory = tmp_path / "a"
    hexadecimal = "0123456789abcdef" * 2
    names = [f"t-0.{hexadecimal}{kind}" for kind in ("-stray", "-future", "-delete")]
    for name in names:
        (directory / name).mkdir(parents=True)
        (directory / name / "00000000000000000000.log").touch()
    manager = LogManager.open([directory], node_id=1, now_ms=0)
    assert not manager.logs
    assert [(directory / name).exists() for name in names] == [True, True, False]
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if names[1] in line]
    [line] = [line for line in told if "stray" in line]
    assert f"{directory} has 1 stray log(s), 0.0 MB" in line
    assert f"kwire strays list --data-dir {directory}" in line
    manager.close(0)


def test_the_mark_of_a_clean_stop_goes_before_the_logs_are_loaded(tmp_path):
    """A start that breaks off must not leave it (KAFKA-10471)."""
    LogManager.open([tmp_path / "a"], node_id=1, now_ms=0).close(0)
    mark = tmp_path / "a" / ".kafka_cleanshutdown"
    assert mark.exists()

    class Interrupted(Disk):
        def names(self, directory):
            """Break off when the logs are looked for, if the mark is gone then."""
            if not mark.exists():
                raise KeyboardInterrupt
            return super().names(directory)

    with pytest.raises(KeyboardInterrupt):
        LogManager.open([tmp_path / "a"], node_id=1, now_ms=0, disk=Interrupted())
    assert not mark.exists()


def test_directories_of_others_are_left_alone(tmp_path):
    """Whatever their names end with; and so are other people's files in a partition's directory."""
    for name in ("please-do-not-delete", "lost+found", "t-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "7.log").touch()
    manager = LogManager.open([tmp_path], node_id=1, now_ms=0)
    assert list(manager.logs) == [("t", 0)]
    assert base_offsets(manager.logs["t", 0]) == [0]
    manager.close(0)
    assert len(list(tmp_path.rglob("7.log"))) == 3
