"""The simulated machine keeps its promises: what is synced stays, any part of the rest may go."""

import errno
from random import Random

import pytest

from tests.support.machine import Died, Machine


def outcomes(tmp_path, work, tries=100):
    """What is left below the root after the power was lost, for many draws; None for no file."""
    found = set()
    for seed in range(tries):
        root = tmp_path / str(seed)
        root.mkdir()
        machine = Machine(root)
        work(machine.disk, root)
        machine.lose_power(Random(seed))
        files = (path for path in root.rglob("*") if path.is_file())
        found.add(tuple(sorted((path.name, path.read_bytes()) for path in files)))
    return found


def test_what_is_synced_with_its_directory_stays(tmp_path):
    def work(disk, root):
        disk.write_atomically(root / "a", b"old")
        disk.write_atomically(root / "a", b"new")

    assert outcomes(tmp_path, work) == {(("a", b"new"),)}


def test_a_new_file_may_vanish_even_when_it_is_synced(tmp_path):
    def work(disk, root):
        fd = disk.open(root / "a", create=True)
        disk.pwrite_all(fd, b"data", 0)
        disk.sync(fd)
        disk.close(fd)

    assert outcomes(tmp_path, work) == {(), (("a", b"data"),)}


def test_writes_are_lost_torn_or_zeros_in_any_order(tmp_path):
    def work(disk, root):
        fd = disk.open(root / "a", create=True)
        disk.sync_directory(root)
        disk.pwrite_all(fd, b"11", 0)
        disk.pwrite_all(fd, b"22", 2)

    contents = {files[0][1] for files in outcomes(tmp_path, work)}
    assert {b"", b"11", b"1122", b"\0\0" + b"22", b"112"} <= contents


def test_a_rename_happens_whole_or_not_at_all(tmp_path):
    def work(disk, root):
        disk.write_atomically(root / "a", b"1")
        disk.write_atomically(root / "b", b"2")
        disk.rename(root / "a", root / "b")

    assert outcomes(tmp_path, work) == {(("b", b"1"),), (("a", b"1"), ("b", b"2"))}


def test_a_directory_that_was_renamed_may_have_its_old_name(tmp_path):
    def work(disk, root):
        disk.make_directory(root / "d")
        disk.sync_directory(root)
        disk.write_atomically(root / "d" / "a", b"1")
        disk.rename(root / "d", root / "e")
        disk.make_directory(root / "d")
        disk.write_atomically(root / "d" / "b", b"2")

    found = outcomes(tmp_path, work)
    assert (("a", b"1"),) in found
    assert (("a", b"1"), ("b", b"2")) in found


def test_a_dead_process_leaves_what_it_wrote_and_can_do_no_more(tmp_path):
    machine = Machine(tmp_path)
    disk = machine.disk
    disk.die(2, written=0.5)
    fd = disk.open(tmp_path / "a", create=True)
    disk.pwrite_all(fd, b"1111", 0)
    with pytest.raises(Died):
        disk.pwrite_all(fd, b"2222", 4)
    with pytest.raises(Died):
        disk.open(tmp_path / "a")
    disk.close(fd)
    assert disk.open_count == 0
    assert machine.disk is not disk
    assert (tmp_path / "a").read_bytes() == b"111122"


def test_planned_calls_fail_and_those_after_them_work(tmp_path):
    disk = Machine(tmp_path).disk
    fd = disk.open(tmp_path / "a", create=True)
    disk.fail(1, failures=2, error=errno.ENOSPC)
    disk.pwrite_all(fd, b"1", 0)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            disk.pwrite_all(fd, b"22", 1)
    disk.sync(fd)
    disk.close(fd)
    assert disk.failures == 2
    assert (tmp_path / "a").read_bytes() == b"12"
