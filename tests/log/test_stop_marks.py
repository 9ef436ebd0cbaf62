"""What a directory tells about the process that used it last."""

import pytest

from kwire.log.disk import Disk
from kwire.log.stop_marks import BOOT_FILE, CLEAN_SHUTDOWN_FILE, StopMarks
from tests.support.machine import Machine


class Booted(Disk):
    """A disk of a machine in one of its boots."""

    def __init__(self, boot: str) -> None:
        self._boot = boot

    def boot_id(self) -> str:
        """The boot."""
        return self._boot


def test_a_clean_stop_counts_for_the_registration_that_it_ended(tmp_path):
    """Another process may have been registered since, and have crashed."""
    StopMarks(tmp_path, Booted("a")).note_stop(41)
    found = StopMarks(tmp_path, Booted("b"))
    assert found.was_clean
    assert not found.may_lack_records
    assert found.are_of(41)
    assert not found.are_of(42)
    found.note_start()
    assert not (tmp_path / CLEAN_SHUTDOWN_FILE).exists()
    assert StopMarks(tmp_path, Booted("b")).may_lack_records


def test_a_crash_loses_nothing_while_the_machine_runs(tmp_path):
    """The page cache has it; after a power cut it is lost."""
    StopMarks(tmp_path, Booted("a")).note_boot()
    same, other = StopMarks(tmp_path, Booted("a")), StopMarks(tmp_path, Booted("b"))
    assert same.are_of(41)
    assert not same.may_lack_records
    assert not other.are_of(41)
    assert other.may_lack_records
    other.note_boot()
    assert (tmp_path / BOOT_FILE).read_text() == "b\n"


@pytest.mark.parametrize("content", ["", "{", '{"version":0}', "[]", '{"brokerEpoch":"x"}'])
def test_a_broken_mark_counts_as_clean_and_as_nobodys(tmp_path, content):
    """Its logs are sound, as in Kafka, and nothing more is known."""
    (tmp_path / CLEAN_SHUTDOWN_FILE).write_text(content)
    found = StopMarks(tmp_path, Disk())
    assert found.was_clean
    assert found.broker_epoch == -1
    assert not found.are_of(3)


def test_the_mark_is_kafkas(tmp_path):
    """Apache Kafka reads it, and kwire reads Kafka's."""
    StopMarks(tmp_path, Disk()).note_stop(7)
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).read_text() == '{"version":0,"brokerEpoch":7}'


def test_a_boot_has_an_id_of_its_own(tmp_path, monkeypatch):
    """Where the system gives none, every boot counts as another."""
    assert Disk().boot_id() == Disk().boot_id()
    monkeypatch.setattr("kwire.log.disk.BOOT_ID", tmp_path / "missing")
    assert Disk().boot_id() != Disk().boot_id()
    machine = Machine(tmp_path)
    assert machine.disk.boot_id() == "boot-1"
