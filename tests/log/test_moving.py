"""A log moves to another data directory while it is used, and whoever dies when."""

import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from kwire.errors import KafkaError
from kwire.log.checkpoints import HIGH_WATERMARKS, read_offsets
from kwire.log.data_directory import LogDirectoryError
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.moved import MARKER
from kwire.log.moving import begin_move
from kwire.log.truncation import Cut, truncate_log, truncate_logs
from tests.support.log_scan import check_log
from tests.support.log_state import close_files, known_producers, log_files
from tests.support.old_segments import delete_old_segments

TOPIC_ID = bytes([1] * 16)
KEY = ("t", 0)
SETTINGS = {"segment_bytes": 900, "index_interval_bytes": 100, "file_delete_delay_ms": 0}


class Killed(BaseException):
    """The process dies."""


class Moves:
    """A manager of two directories with one log in the first, and a move to the second."""

    def __init__(self, tools):
        self.tools = tools
        self.disk = tools.disk
        self.manager = self.open()
        self.log = self.manager.get_or_create(*KEY, TOPIC_ID, LogConfig(**SETTINGS), tools.now_ms)
        first, second = self.manager.data_directories
        self.target = first if self.log.directory.parent == second.path else second
        self.sequence = 0

    def open(self):
        return LogManager.open(
            [self.tools.root / "a", self.tools.root / "b"],
            node_id=1,
            now_ms=self.tools.now_ms,
            default_config=LogConfig(**SETTINGS),
            disk=self.disk,
        )

    def append(self, count=1):
        for _ in range(count):
            value = b"%d" % self.sequence
            self.tools.append(self.log, value, producer=(5, 0, self.sequence))
            self.sequence += 1

    def begin(self):
        return begin_move(self.manager, self.log, self.target, self.tools.now_ms)

    def step(self, move, bytes_each=300):
        """One step, as the broker makes it; whether the move has ended."""
        now_ms = self.tools.now_ms
        piece = move.next_piece(bytes_each)
        if move.is_stale:
            move.restart(now_ms, 0)
        elif piece is not None:
            move.copy(piece, now_ms)
        else:
            move.prepare(0, lambda: {KEY: self.log.log_end_offset})
            if move.finish(now_ms, 0):
                move.clean_up()
                return True
        return False

    def finish(self, move):
        assert any(self.step(move) for _ in range(500))

    def restart(self, clean):
        if not clean:
            close_files(self.log)
        self.manager.close(self.tools.now_ms, clean=clean)
        self.manager = self.open()
        self.log = self.manager.logs[KEY]

    def names(self):
        return sorted(
            f"{place}/{path.name}"
            for place in "ab"
            for path in (self.tools.root / place).iterdir()
            if path.is_dir()
        )

    def open_directories(self):
        """The directories of partitions with files that the process holds open."""
        paths = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
        directories = {Path(path).parent for path in paths}
        return {one for one in directories if one.parent.parent == self.tools.root}

    @property
    def values(self):
        return self.tools.values(self.log)


@pytest.fixture
def moves(tools):
    """A log with records, of several segments."""
    made = Moves(tools)
    made.append(40)
    return made


def expected(count, start=0):
    return [(offset, b"%d" % offset) for offset in range(start, count)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_moves_while_it_grows(moves, clean):
    """Nothing is lost or doubled, sequences go on, and a start finds it in the new directory."""
    move = moves.begin()
    former = moves.log.directory
    while not moves.step(move):
        if moves.sequence < 70:
            moves.append()
    assert moves.log.directory == moves.target.path / "t-0"
    assert moves.values == expected(70)
    moves.append(30)
    check_log(moves.log)
    assert not (moves.log.directory / MARKER).exists()
    moves.manager.remove_doomed(1)
    assert moves.names() == [f"{moves.target.path.name}/t-0"]
    moves.restart(clean)
    assert moves.values == expected(100)
    assert moves.log.directory.parent != former.parent
    assert known_producers(moves.log)[5].last_sequence == 99
    moves.append()


def test_a_log_moves_there_and_back(moves):
    """Each directory can have it again, and the counts for new partitions follow."""
    for target in (moves.target, *moves.manager.data_directories):
        if moves.log.health is not target.health:
            moves.target = target
            moves.finish(moves.begin())
            moves.append(3)
        assert moves.manager.counts[moves.log.directory.parent] == 1
        assert sum(moves.manager.counts.values()) == 1
    check_log(moves.log)


def test_whoever_reads_the_former_files_goes_on(moves):
    """A reader that holds a segment, whose file may be closed meanwhile, reads it to its end."""
    held = list(moves.log.segments)
    for segment in held:
        segment.close()
    moves.finish(moves.begin())
    offsets = [header.base_offset for segment in held for header in segment.headers()]
    assert offsets == list(range(40))


def test_no_former_file_stays_open(moves):
    """A file that is open keeps its room on the disk, also after its removal."""
    assert moves.open_directories() == {moves.log.directory}
    moves.finish(moves.begin())
    assert moves.values == expected(40)
    assert moves.open_directories() == {moves.log.directory}


def test_deleted_records_stay_deleted(moves):
    """The log start offset is in the new directory's checkpoint before the log is."""
    move = moves.begin()
    moves.step(move)
    moves.log.advance_log_start_offset(23)
    delete_old_segments(moves.log, moves.tools.now_ms, 40, moves.disk, 0)
    moves.finish(move)
    assert moves.values == expected(40, 23)
    moves.restart(clean=False)
    assert moves.values == expected(40, 23)
    assert moves.log.log_start_offset == 23


def test_records_deleted_between_preparing_and_the_end_are_noted_first(moves):
    """The last step asks for another preparation."""
    move = moves.begin()
    while (piece := move.next_piece()) is not None:
        move.copy(piece, 0)
    move.prepare(0, dict)
    moves.log.advance_log_start_offset(7)
    assert not move.finish(0, 0)
    moves.finish(move)
    moves.restart(clean=False)
    assert moves.values == expected(40, 7)


def test_a_log_that_is_cut_is_copied_anew(moves):
    """A follower's log may have other records after a cut."""
    move = moves.begin()
    while (piece := move.next_piece()) is not None:
        move.copy(piece, 0)
    truncate_log(moves.log, 30, 0, moves.disk, 0)
    for number in range(30, 45):
        moves.tools.append(moves.log, b"other%d" % number)
    moves.finish(move)
    assert moves.values[:30] == expected(30)
    assert moves.values[30:] == [(number, b"other%d" % number) for number in range(30, 45)]
    check_log(moves.log)


def test_a_log_that_is_being_cut_waits(moves):
    """No copy is used while a thread cuts the log."""
    move = moves.begin()
    while (piece := move.next_piece()) is not None:
        move.copy(piece, 0)
    move.prepare(0, dict)
    moves.log.is_being_cut = True
    assert move.is_waiting
    assert not move.finish(0, 0)


def test_a_log_that_is_cut_beside_an_arriving_copy_keeps_its_lower_high_watermark(
    moves, monkeypatch
):
    """The watermarks are looked up when the copy is on the disk, not before."""
    tools, manager = moves.tools, moves.manager
    manager.preferred["t", 1] = moves.target.path
    other = manager.get_or_create("t", 1, TOPIC_ID, LogConfig(**SETTINGS), tools.now_ms)
    assert other.health is moves.target.health
    for _ in range(9):
        tools.append(other, b"x")
    served = {KEY: moves.log.log_end_offset, ("t", 1): 9}
    move = moves.begin()
    while (piece := move.next_piece()) is not None:
        move.copy(piece, 0)
    sync = tools.disk.sync

    def cut_meanwhile(fd):
        monkeypatch.undo()
        sync(fd)
        truncate_logs(manager, [Cut(other, 5)], 0, 0)
        served["t", 1] = 5
        for _ in range(9):
            tools.append(other, b"new")

    monkeypatch.setattr(tools.disk, "sync", cut_meanwhile)
    move.prepare(0, served.copy)
    assert served["t", 1] == 5
    noted = read_offsets(moves.target.path / HIGH_WATERMARKS, tools.disk)
    assert noted == {KEY: moves.log.log_end_offset, ("t", 1): 5}


def test_an_empty_log_moves(tools):
    """At any start offset."""
    moves = Moves(tools)
    moves.finish(moves.begin())
    moves.append(5)
    moves.log.advance_log_start_offset(5)
    moves.target = next(
        data for data in moves.manager.data_directories if data.health is not moves.log.health
    )
    moves.finish(moves.begin())
    assert (moves.log.log_start_offset, moves.log.log_end_offset) == (5, 5)
    moves.restart(clean=False)
    assert (moves.log.log_start_offset, moves.log.log_end_offset) == (5, 5)


def test_a_move_that_is_given_up_leaves_nothing(moves):
    """As when the partition is deleted."""
    move = moves.begin()
    moves.step(move)
    moves.manager.delete(*KEY, 0)
    assert move.is_over
    move.drop()
    moves.manager.remove_doomed(1)
    assert moves.names() == []


@pytest.mark.parametrize("position", [65, 70])
def test_a_damaged_batch_ends_the_move(moves, position):
    """What can't be read isn't copied as if it were right: a record, or a batch's offset."""
    path = log_files(moves.log)[0]
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    move = moves.begin()
    with pytest.raises(KafkaError):
        moves.finish(move)


def test_a_name_that_is_taken_ends_the_move(moves):
    """A directory that another log has left is not overwritten."""
    (moves.target.path / "t-0").mkdir()
    (moves.target.path / "t-0" / "00000000000000000000.log").touch()
    with pytest.raises(KafkaError):
        moves.finish(moves.begin())
    assert moves.values == expected(40)


def test_two_directories_of_one_log_are_decided_by_the_longer_one(moves):
    """A mark alone isn't believed: the copy may have been given up after it was renamed."""
    former = moves.log.directory
    moves.manager.close(0)
    copy = moves.target.path / "t-0"
    copy.mkdir()
    for path in former.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    with pytest.raises(LogDirectoryError):
        moves.open()
    (copy / MARKER).touch()
    longest = max(former.glob("*.log"))
    moves.manager = moves.open()
    moves.log = moves.manager.logs[KEY]
    assert moves.log.directory == copy
    assert moves.values == expected(40)
    assert [path.suffix for path in former.parent.glob("t-0.*")]
    assert longest.exists() is False


def die_after(disk, calls, monkeypatch):
    """Have the process die at the n-th call that changes a disk."""
    left = [calls]
    for name in ("rename", "pwrite_all", "truncate", "remove", "sync", "make_directory", "open"):
        real = getattr(disk, name)

        def dying(*args, real=real, **options):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*args, **options)

        monkeypatch.setattr(disk, name, dying)
    return left


def test_killed_at_any_call_of_the_disk(tools, monkeypatch):
    """Everything that was appended is there once after the next start, which may move it again."""
    calls = 0
    while True:
        tools.root = tools.root.parent / f"kill{calls}"
        moves = Moves(tools)
        moves.append(15)
        chance = random.Random(calls)
        with monkeypatch.context() as patched:
            left = die_after(moves.disk, calls, patched)
            with suppress(Killed):
                move = moves.begin()
                while not moves.step(move):
                    if chance.random() < 0.5 and moves.sequence < 35:
                        moves.append()
                moves.append(3)
            appended = moves.sequence
        moves.restart(clean=False)
        found = moves.values
        assert found[:appended] == expected(appended), calls
        assert len(found) <= appended + 1
        moves.sequence = len(found)
        moves.append()
        check_log(moves.log)
        moves.manager.close(0, clean=False)
        if left[0] > 0:
            break
        calls += 1
    assert calls > 50


def test_a_move_does_not_end_while_a_thread_deletes_logs(moves):
    """The log may be among them: its directory would be renamed by both."""
    move = moves.begin()
    while move.next_piece(300) is not None:
        moves.step(move)
    move.prepare(0, lambda: {KEY: moves.log.log_end_offset})
    with moves.manager.changing:
        assert not move.finish(moves.tools.now_ms, 0)
    assert moves.log.directory.parent != moves.target.path
    assert move.finish(moves.tools.now_ms, 0)
    assert moves.log.directory.parent == moves.target.path
    move.clean_up()
