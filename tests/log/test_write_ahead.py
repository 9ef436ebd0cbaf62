"""A large batch that is written in pieces before it is appended, whatever comes between."""

import errno
import os

import pytest

from kwire.errors import KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.segment import LogSegment
from kwire.log.truncation import truncate_log
from kwire.log.validation import checked_batch
from kwire.log.write_ahead import PIECE_BYTES, WriteAhead
from kwire.record.batch import RecordBatch
from tests.support.log_state import base_offsets, log_files

LARGE = LogConfig(max_message_bytes=1 << 30)


class Writer:
    """A producer's batch of some pieces on its way into a log."""

    def __init__(self, tools, log: PartitionLog, letter: bytes = b"L", **options) -> None:
        self.tools, self.log = tools, log
        data = tools.batch(letter * (5 * PIECE_BYTES // 2), **options)
        self.checked = checked_batch(RecordBatch(data), LARGE, tools.now_ms)
        self.ahead = WriteAhead(log, self.checked.batch)

    def steps(self, count: int) -> list[bool]:
        """Take so many steps."""
        return [self.ahead.write_piece(self.tools.now_ms) for _ in range(count)]

    def append(self) -> int:
        """Append it; its first offset."""
        now_ms = self.tools.now_ms
        with self.ahead.written(now_ms):
            return self.log.append_checked(self.checked, leader_epoch=3, now_ms=now_ms).first_offset


def contents(tools, log):
    """The first byte of each record with its offset, as a consumer reads them."""
    return [(offset, value[:1]) for offset, value in tools.values(log)]


@pytest.fixture
def log(tools):
    """A log with a record."""
    opened = tools.open()
    tools.append(opened, b"first")
    return opened


def has_no_remains(log):
    """Whether nothing lies in the files behind the records."""
    return sum(path.stat().st_size for path in log_files(log)) == log.size_bytes


def test_the_file_is_as_if_it_was_written_at_once(tools, log):
    """Byte for byte; nothing of it is seen before."""
    writer = Writer(tools, log)
    before = log.log_end_offset, log.size_bytes
    assert writer.steps(3) == [False, False, True]
    assert (log.log_end_offset, log.size_bytes) == before
    assert writer.append() == 1
    log.append_checked(writer.checked, leader_epoch=3, now_ms=tools.now_ms)
    data = (tools.directory / "00000000000000000000.log").read_bytes()
    size = writer.checked.batch.size_bytes
    assert len(data) == before[1] + 2 * size
    assert data[-size + 8 :] == data[-2 * size + 8 : -size], "but for the base offset"
    assert contents(tools, log) == [(0, b"f"), (1, b"L"), (2, b"L")]
    assert has_no_remains(log)
    log.close(tools.now_ms)
    assert contents(tools, tools.open(clean=False)) == [(0, b"f"), (1, b"L"), (2, b"L")]


def between_append(tools, log):
    """Another append."""
    tools.append(log, b"small")


def between_roll(tools, log):
    """A new segment."""
    log.roll(tools.now_ms)


def between_cut(tools, log):
    """A truncation, and an append of the same size after it."""
    truncate_log(log, 0, tools.now_ms, tools.disk, 0)
    tools.append(log, b"first")


@pytest.mark.parametrize("done", [1, 2, 3])
@pytest.mark.parametrize("between", [between_append, between_roll, between_cut])
def test_it_begins_again_if_something_else_comes(tools, log, between, done):
    """What comes between finds the log as if nothing had been written."""
    writer = Writer(tools, log)
    writer.steps(done)
    between(tools, log)
    assert has_no_remains(log)
    before = contents(tools, log)
    while not writer.steps(1)[0]:
        pass
    offset = writer.append()
    tools.append(log, b"last")
    wanted = [*before, (offset, b"L"), (offset + 1, b"l")]
    assert contents(tools, log) == wanted
    assert contents(tools, tools.open(clean=False)) == wanted


@pytest.mark.parametrize("between", [between_append, between_roll, between_cut])
def test_it_is_written_at_once_if_something_comes_after_the_last_piece(tools, log, between):
    """Nothing is lost, nothing is there twice."""
    writer = Writer(tools, log)
    writer.steps(3)
    between(tools, log)
    before = contents(tools, log)
    offset = writer.append()
    tools.append(log, b"last")
    wanted = [*before, (offset, b"L"), (offset + 1, b"l")]
    assert contents(tools, log) == wanted
    assert contents(tools, tools.open(clean=False)) == wanted


def test_a_refused_batch_leaves_nothing(tools, log):
    """Its producer has skipped a batch."""
    writer = Writer(tools, log, producer=(7, 0, 0))
    writer.steps(3)
    writer.append()
    size_bytes = log.size_bytes
    wrong = Writer(tools, log, producer=(7, 0, 5))
    wrong.steps(3)
    with pytest.raises(KafkaError):
        wrong.append()
    again = Writer(tools, log, producer=(7, 0, 0))
    again.steps(3)
    assert again.append() == 1, "a duplicate"
    assert has_no_remains(log)
    file = tools.directory / "00000000000000000000.log"
    assert log.size_bytes == size_bytes == file.stat().st_size
    tools.append(log, b"last")
    assert contents(tools, log) == [(0, b"f"), (1, b"L"), (2, b"l")]
    assert contents(tools, tools.open(clean=False)) == [(0, b"f"), (1, b"L"), (2, b"l")]


@pytest.mark.parametrize("done", [1, 2, 3])
def test_two_writers_never_mix_their_pieces(tools, log, done):
    """The second one has cut the first one's pieces off, and its own are at the same place."""
    first, second = Writer(tools, log, b"A"), Writer(tools, log, b"B")
    first.steps(3)
    second.steps(done)
    assert first.append() == 1
    tools.append(log, b"small")
    while not second.steps(1)[0]:
        pass
    assert second.append() == 3
    wanted = [(0, b"f"), (1, b"A"), (2, b"s"), (3, b"B")]
    assert contents(tools, log) == wanted
    assert contents(tools, tools.open(clean=False)) == wanted


def test_a_cut_that_fails_halfway_has_cut_the_pieces_off(tools, log, monkeypatch):
    """The file may be shorter by then: a writer that went on would leave zeros before its end."""
    writer = Writer(tools, log)
    writer.steps(2)
    truncate = tools.disk.truncate

    def truncate_and_fail(fd, size_bytes):
        monkeypatch.undo()
        truncate(fd, size_bytes)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(tools.disk, "truncate", truncate_and_fail)
    with pytest.raises(KafkaError):
        tools.append(log, b"small")
    while not writer.steps(1)[0]:
        pass
    assert writer.append() == 1
    tools.append(log, b"last")
    wanted = [(0, b"f"), (1, b"L"), (2, b"l")]
    assert contents(tools, log) == wanted
    assert contents(tools, tools.open(clean=False)) == wanted


def test_whoever_appends_again_and_again_does_not_keep_it_from_its_end(tools, log):
    """Its pieces get larger each time that it begins again."""
    writer = Writer(tools, log)
    appends = 0
    while not writer.steps(1)[0]:
        tools.append(log, b"small")
        appends += 1
    assert 1 < appends < 6
    writer.append()
    assert contents(tools, log)[-1] == (appends + 1, b"L")


def test_an_append_before_the_last_piece_writes_the_whole_batch(tools, log):
    """Whoever forgets a piece loses nothing."""
    writer = Writer(tools, log)
    writer.steps(2)
    assert writer.append() == 1
    assert contents(tools, log) == [(0, b"f"), (1, b"L")]
    assert contents(tools, tools.open(clean=False)) == [(0, b"f"), (1, b"L")]


def test_a_dropped_batch_is_cut_off_at_once(tools, log):
    """Nothing waits for the next append: no move of the log, and no room on the disk."""
    size_bytes = log.size_bytes
    writer = Writer(tools, log)
    writer.steps(2)
    writer.ahead.cut_off()
    assert has_no_remains(log)
    assert (tools.directory / "00000000000000000000.log").stat().st_size == size_bytes


def test_a_dropped_batch_costs_no_look_at_the_segment(tools, log, monkeypatch):
    """Clients that end their connections would stop the event loop for as long as that takes."""
    for _ in range(50):
        tools.append(log, b"small")
    writer = Writer(tools, log)
    writer.steps(1)
    reads = []
    pread = tools.disk.pread
    monkeypatch.setattr(tools.disk, "pread", lambda *asked: reads.append(asked) or pread(*asked))
    writer.ahead.cut_off()
    tools.append(log, b"last")
    assert not reads
    assert contents(tools, log)[-1] == (51, b"l")


@pytest.mark.parametrize("is_written", [False, True])
def test_a_segment_that_cannot_be_read_refuses_it(tools, log, monkeypatch, is_written):
    """As it refuses an ordinary batch, with an error for the client."""
    log.close(tools.now_ms)
    log = tools.open()
    writer = Writer(tools, log)
    if is_written:
        writer.steps(3)

    def fail(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(LogSegment, "first_timestamp", fail)
    with pytest.raises(KafkaError):
        writer.append() if is_written else writer.steps(1)
    monkeypatch.undo()
    tools.append(log, b"last")
    assert contents(tools, log) == [(0, b"f"), (1, b"l")]


def test_a_crash_or_a_stop_leaves_nothing_of_it(tools, log):
    """Nobody was told that it is there."""
    Writer(tools, log).steps(2)
    assert contents(tools, tools.open(clean=False)) == [(0, b"f")]
    log = tools.open()
    Writer(tools, log).steps(3)
    log.close(tools.now_ms)
    assert contents(tools, tools.open()) == [(0, b"f")]


def test_a_full_segment_ends_before_it(tools):
    """And it may itself be larger than what is left."""
    log = tools.open(segment_bytes=3 * PIECE_BYTES)
    writers = [Writer(tools, log, letter) for letter in (b"a", b"b", b"c")]
    for writer in writers:
        assert writer.steps(3)[-1]
        writer.append()
    assert base_offsets(log) == [0, 1, 2]
    assert contents(tools, log) == [(0, b"a"), (1, b"b"), (2, b"c")]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_disk_without_room_refuses_it(tools, log, failing):
    """At any piece; the log goes on without it."""
    writer = Writer(tools, log)
    writer.steps(failing)
    tools.disk.fail_at = tools.disk.calls
    with pytest.raises(KafkaError, match="append"):
        writer.steps(1)
    tools.append(log, b"last")
    assert contents(tools, log) == [(0, b"f"), (1, b"l")]
