"""Noted deletions: the next start ends them, and deletes nothing that the metadata still has."""

import errno

import pytest

from kwire.log.checkpoints import DELETIONS
from kwire.log.deletions import finish_deletions, note_deletions
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.protocol.types import uuid_to_str

IDS = {"a": bytes([1] * 16), "b": bytes([2] * 16)}
KEYS = [("a", 0), ("a", 1), ("b", 0)]
ALL = {key: IDS[key[0]] for key in KEYS}


@pytest.fixture
def open_manager(tmp_path):
    """Opens a manager on two directories, as a start does, and closes it at the end."""
    opened = []

    def start():
        while opened:
            opened.pop().close(0)
        opened.append(LogManager.open([tmp_path / "x", tmp_path / "y"], node_id=1, now_ms=0))
        return opened[0]

    yield start
    opened.pop().close(0)


@pytest.fixture
def manager(open_manager):
    """A manager with three logs in two directories."""
    found = open_manager()
    for topic, partition in KEYS:
        found.get_or_create(topic, partition, IDS[topic], LogConfig(), 0)
    return found


def _notes(tmp_path):
    return sorted(path.parent.name for path in tmp_path.glob(f"*/{DELETIONS}"))


def test_the_next_start_deletes_what_is_left(manager, open_manager, tmp_path):
    """Of every directory; then the note is gone, and nothing is a stray."""
    note_deletions(manager, ALL)
    assert _notes(tmp_path) == ["x", "y"]
    manager.delete("a", 1, 0)
    again = open_manager()
    finish_deletions(again, dict, 0)
    again.put_strays_aside({})
    assert not again.logs
    assert not _notes(tmp_path)
    assert not list(tmp_path.glob("*/*-stray"))
    assert len(list(tmp_path.glob("*/*-delete"))) == 2  # the start has removed that of a-1
    assert len(again.doomed) == 2


def test_what_is_not_noted_is_put_aside(manager, open_manager, tmp_path):
    """A log of an unknown topic may be all that is left of it."""
    note_deletions(manager, {("a", 0): IDS["a"]})
    again = open_manager()
    finish_deletions(again, dict, 0)
    assert set(again.logs) == {("a", 1), ("b", 0)}
    again.put_strays_aside({})
    assert len(list(tmp_path.glob("*/*-stray"))) == 2


def test_the_metadata_is_stronger_than_a_note(manager, open_manager, tmp_path):
    """It comes from a backup of before the deletion; a new topic of the name doesn't count."""
    note_deletions(manager, ALL)
    again = open_manager()
    own = {("a", 0): IDS["a"], ("b", 0): bytes([9] * 16)}
    finish_deletions(again, lambda: own, 0)
    assert set(again.logs) == {("a", 0)}
    assert not _notes(tmp_path)


def test_a_note_is_replaced_and_removed(manager, open_manager, tmp_path):
    """The newest one counts; without a deletion there is no file, and nothing is asked."""
    note_deletions(manager, ALL)
    note_deletions(manager, {("b", 0): IDS["b"]})
    assert len(_notes(tmp_path)) == 1
    note_deletions(manager, {})
    assert not _notes(tmp_path)
    again = open_manager()
    finish_deletions(again, lambda: pytest.fail("it isn't needed"), 0)
    assert set(again.logs) == set(KEYS)


@pytest.mark.parametrize("content", ["nonsense", "0\n1\nno-id 0\n", "0\n1\nx\n"])
def test_a_broken_note_deletes_nothing(manager, open_manager, tmp_path, content, caplog):
    """A warning names the file, once."""
    (tmp_path / "x" / DELETIONS).write_text(content)
    finish_deletions(open_manager(), dict, 0)
    assert f"{tmp_path / 'x' / DELETIONS} is broken and ignored" in caplog.text
    caplog.clear()
    again = open_manager()
    finish_deletions(again, dict, 0)
    assert not caplog.text
    assert set(again.logs) == set(KEYS)


def test_the_log_of_a_new_topic_is_not_noted(manager, tmp_path):
    """It has taken the name before a thread writes the note."""
    note_deletions(manager, {("a", 0): bytes([9] * 16)})
    assert not _notes(tmp_path)


def test_a_log_without_a_topic_id_is_never_deleted(manager, open_manager, tmp_path):
    """Kafka before 2.8 wrote none, so it may be the log of any topic."""
    (tmp_path / "x" / DELETIONS).write_text(f"0\n1\n{uuid_to_str(bytes(16))} 0\n")
    manager.logs["a", 0].directory.joinpath("partition.metadata").unlink()
    again = open_manager()
    finish_deletions(again, lambda: {("a", 0): IDS["a"]}, 0)
    assert set(again.logs) == set(KEYS)


@pytest.mark.parametrize("old", ["x", "y"])
def test_a_new_topics_log_in_another_directory_is_kept(open_manager, tmp_path, old):
    """The deletion's directory was offline while the topic was made anew."""
    new = {"x": "y", "y": "x"}[old]
    found = open_manager()
    first = found.get_or_create("a", 0, IDS["a"], LogConfig(), 0)
    note_deletions(found, {("a", 0): IDS["a"]})
    here = first.directory.parent
    found.close(0)
    aside = tmp_path / "aside"
    (here / "a-0").rename(aside)
    found = open_manager()
    made = found.get_or_create("a", 0, IDS["b"], LogConfig(), 0).directory
    found.close(0)
    made.rename(tmp_path / new / "a-0")
    aside.rename(tmp_path / old / "a-0")
    if (note := here / DELETIONS) != tmp_path / old / DELETIONS:
        note.rename(tmp_path / old / DELETIONS)
    again = open_manager()
    finish_deletions(again, lambda: {("a", 0): IDS["b"]}, 0)
    assert again.logs["a", 0].directory == tmp_path / new / "a-0"
    again.put_strays_aside({("a", 0): IDS["b"]})
    assert not list(tmp_path.glob("*/*-stray"))
    assert len(list((tmp_path / old).glob("a-0.*-delete"))) == 1


def test_a_deletion_that_fails_stays_noted(manager, open_manager, tmp_path, monkeypatch):
    """No room, for instance: the next start tries again."""

    def refuse(old, new):
        raise OSError(errno.ENOSPC, "no room")

    note_deletions(manager, ALL)
    again = open_manager()
    monkeypatch.setattr(again.disk, "rename", refuse)
    finish_deletions(again, dict, 0)
    assert set(again.logs) == set(KEYS)
    assert _notes(tmp_path) == ["x", "y"]


def test_a_note_that_cannot_be_read_stays(manager, open_manager, tmp_path, monkeypatch):
    """A lack of file descriptors passes."""

    def refuse(path):
        raise OSError(errno.EMFILE, "too many open files")

    note_deletions(manager, ALL)
    again = open_manager()
    monkeypatch.setattr(again.disk, "read_bytes", refuse)
    finish_deletions(again, dict, 0)
    assert set(again.logs) == set(KEYS)
    assert _notes(tmp_path) == ["x", "y"]


def test_the_start_waits_for_the_disk_once_for_each_directory(manager, open_manager, monkeypatch):
    """Not for each of thousands of logs."""
    note_deletions(manager, ALL)
    again = open_manager()
    synced = []
    monkeypatch.setattr(again.disk, "sync_directory", synced.append)
    finish_deletions(again, dict, 0)
    assert sorted(path.name for path in synced) == ["x", "y"]
