"""Checkpoints that wait for the disk while logs are cut, or made anew, in other threads."""

import shutil

import pytest

from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.truncation import Cut, truncate_logs

NEW_ID = bytes([7] * 16)


class Checkpoints:
    """A manager with a log of records and another log, for whose flush a checkpoint waits.

    ``served`` has the high watermarks of the partitions that are served.
    """

    def __init__(self, tools, monkeypatch):
        self.tools = tools
        self.manager = self.open()
        self.log, self.other = (
            self.manager.get_or_create("t", index, tools.topic_id, LogConfig(), tools.now_ms)
            for index in (0, 1)
        )
        self.append(self.log, 20)
        self.append(self.other, 1)
        self.other.roll(tools.now_ms)
        self.served = {("t", 0): 20, ("t", 1): 1}
        self.patch = monkeypatch

    def open(self):
        return LogManager.open(
            [self.tools.root / "data"],
            node_id=1,
            now_ms=self.tools.now_ms,
            disk=self.tools.disk,
        )

    def append(self, log, count):
        for _ in range(count):
            self.tools.append(log, b"x")

    def write(self, meanwhile):
        """Write the checkpoints; ``meanwhile`` is called once, while they wait for the flush."""
        sync_path, due = self.tools.disk.sync_path, [meanwhile]

        def slow(path):
            sync_path(path)
            if path.parent == self.other.directory and due:
                due.pop()()

        self.patch.setattr(self.tools.disk, "sync_path", slow)
        assert self.manager.checkpoint(self.served.copy)
        assert not due

    def slow_save(self, log, meanwhile):
        """Call ``meanwhile`` when the file of the log's epochs is about to be written."""
        replace_file, due = self.tools.disk.replace_file, [meanwhile]

        def slow(path, content, *, durable=True):
            if path.parent == log.directory and due:
                due.pop()()
            replace_file(path, content, durable=durable)

        self.patch.setattr(self.tools.disk, "replace_file", slow)

    def high_watermarks_after_a_crash(self):
        """What the next process knows of both partitions."""
        self.manager.close(self.tools.now_ms, clean=False)
        self.manager = self.open()
        return [self.manager.high_watermark_before(self.manager.logs["t", n]) for n in (0, 1)]


@pytest.fixture
def checkpoints(tools, monkeypatch):
    """Checkpoints in a directory of their own."""
    made = Checkpoints(tools, monkeypatch)
    yield made
    made.manager.close(tools.now_ms, clean=False)


def test_a_cut_meanwhile_lowers_the_high_watermark_for_good(checkpoints):
    """The records that take the place of those that were cut aren't replicated."""

    def cut():
        truncate_logs(checkpoints.manager, [Cut(checkpoints.log, 5)], 0, 0)
        checkpoints.served["t", 0] = 5  # FollowerPartition.end_cut
        checkpoints.append(checkpoints.log, 25)

    checkpoints.write(cut)
    assert checkpoints.high_watermarks_after_a_crash() == [5, 1]


def test_a_topic_made_anew_meanwhile_has_no_high_watermark_of_the_old_one(checkpoints):
    """Its records aren't replicated, whatever the deleted topic's were."""
    manager, now_ms = checkpoints.manager, checkpoints.tools.now_ms

    def make_anew():
        del checkpoints.served["t", 0]
        manager.delete("t", 0, now_ms)
        new = manager.get_or_create("t", 0, NEW_ID, LogConfig(), now_ms)
        checkpoints.append(new, 25)

    checkpoints.write(make_anew)
    assert checkpoints.high_watermarks_after_a_crash() == [0, 1]


def test_a_log_deleted_meanwhile_disturbs_no_checkpoint(checkpoints, caplog):
    """Its epochs need no file any more; those of the others are written, and nothing is told."""
    manager, now_ms = checkpoints.manager, checkpoints.tools.now_ms
    doomed = manager.get_or_create("a", 0, NEW_ID, LogConfig(), now_ms)
    for log in (doomed, checkpoints.log):
        log.leader_epochs.assign(7, log.log_end_offset)
    checkpoints.slow_save(doomed, lambda: manager.delete("a", 0, now_ms))
    assert manager.checkpoint(checkpoints.served.copy)
    assert checkpoints.log.leader_epochs.is_saved
    assert checkpoints.high_watermarks_after_a_crash() == [20, 1]
    assert "cannot" not in caplog.text


def test_a_log_deleted_while_it_is_cut_takes_no_directory_offline(checkpoints):
    """Its files are missing for a good reason."""
    manager, now_ms = checkpoints.manager, checkpoints.tools.now_ms
    doomed = manager.get_or_create("a", 0, NEW_ID, LogConfig(), now_ms)
    checkpoints.append(doomed, 5)
    checkpoints.slow_save(doomed, lambda: manager.delete("a", 0, now_ms))
    errors = truncate_logs(manager, [Cut(doomed, 2), Cut(checkpoints.log, 5)], 0, 0)
    assert [error is not None for error in errors] == [True, False]
    assert not manager.failures


def test_missing_files_of_a_log_are_told_and_disturb_no_other_log(checkpoints, caplog):
    """Each log's own, also after those of another log."""
    manager, now_ms = checkpoints.manager, checkpoints.tools.now_ms
    for name in ("a", "b"):
        lost = manager.get_or_create(name, 0, NEW_ID, LogConfig(), now_ms)
        lost.leader_epochs.assign(7, 0)
        shutil.rmtree(lost.directory)
        for _ in range(2):
            assert not manager.checkpoint(checkpoints.served.copy)
        assert caplog.text.count(f"cannot save the leader epochs of {name}-0") == 1
    assert checkpoints.high_watermarks_after_a_crash() == [20, 1]
