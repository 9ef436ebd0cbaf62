"""A disk that fails at any call: the client is told, nothing acknowledged is lost, work goes on."""

import errno
import os
import shutil

import pytest

from kwire.errors import ErrorCode, KafkaError
from tests.support.log_state import close_files, log_files

SETTINGS = {"segment_bytes": 700, "index_interval_bytes": 100, "segment_index_bytes": 256}


def append_or_error(tools, log, value, sequence):
    """The offset of an append, or None where it was refused."""
    try:
        return tools.append(log, value, producer=(4, 0, sequence))
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        return None


def work(tools, log, rounds):
    """Append with retries like an idempotent producer; what was acknowledged."""
    acknowledged = []
    for number in range(rounds):
        value = b"%d" % number + b"p" * 60
        for _ in range(4):
            offset = append_or_error(tools, log, value, number)
            if offset is not None:
                acknowledged.append((offset, value))
                break
        else:
            return acknowledged
    return acknowledged


def calls_without_fault(make_tools, path):
    """How many calls of the disk there are to fail."""
    tools = make_tools(path)
    log = tools.open(**SETTINGS)
    tools.disk.calls = 0
    work(tools, log, 15)
    return tools.disk.calls


@pytest.mark.parametrize("failures", [1, 3])
def test_each_call_of_the_disk_may_fail(make_tools, tmp_path, failures, caplog):
    """Whichever write, truncate, open or rename fails: the log holds what was acknowledged, in
    order and once, before and after a restart, clean or not."""
    total = calls_without_fault(make_tools, tmp_path / "count")
    assert total > 40
    for call in range(total):
        tools = make_tools(tmp_path / f"{failures}-{call}")
        log = tools.open(**SETTINGS)
        tools.disk.calls, tools.disk.fail_at, tools.disk.failures = 0, call, failures
        acknowledged = work(tools, log, 15)
        assert tools.values(log) == acknowledged
        tools.disk.fail_at = -1
        was_offline = log.is_offline
        if not was_offline and call % 2:
            log.close(tools.now_ms)
        else:
            log.abandon()
        log = tools.open(clean=not was_offline and bool(call % 2), **SETTINGS)
        found = tools.values(log)
        # A log went offline because it could not cut what was refused: that may come to light.
        assert found[: len(acknowledged)] == acknowledged
        assert len(found) <= len(acknowledged) + was_offline
        assert [offset for offset, _ in found] == list(range(len(found)))
        assert tools.append(log, b"on", producer=(4, 0, len(found))) == len(found)
        log.abandon()
        caplog.clear()  # what is logged has the errors, and they have the logs with open files
        shutil.rmtree(tools.root)


def test_a_disk_with_room_again_is_used_again(tools):
    """A full disk refuses producers and serves consumers; when there is room, all is well."""
    log = tools.open()
    tools.append(log, b"a")
    tools.disk.calls, tools.disk.fail_at, tools.disk.failures = 0, 0, 1
    with pytest.raises(KafkaError) as full:
        tools.append(log, b"b")
    assert full.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert os.strerror(errno.ENOSPC) in full.value.message
    assert not log.is_offline
    assert tools.values(log) == [(0, b"a")]
    assert tools.append(log, b"c") == 1


def test_a_failed_sync_takes_the_log_offline(tools, refused):
    """After it nobody knows what the disk has; reading goes on, appending does not."""
    log = tools.open()
    tools.append(log, b"a")
    tools.disk.fails_sync = True
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        log.flush(tools.now_ms)
    tools.disk.fails_sync = False
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        tools.append(log, b"b")
    assert tools.values(log) == [(0, b"a")]
    log.close(tools.now_ms)
    assert log.recovery_point == 0
    log = tools.open(clean=False)
    assert tools.append(log, b"b") == 1


def test_a_tail_that_cannot_be_cut_takes_the_log_offline(tools, refused):
    """Half a batch that stays must not be followed by a whole one."""
    log = tools.open()
    tools.append(log, b"a")
    tools.disk.calls, tools.disk.fail_at, tools.disk.failures = 0, 0, 100
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        tools.append(log, b"b")
    assert log.is_offline
    tools.disk.fail_at = -1
    log = tools.open(clean=False)
    assert tools.values(log) == [(0, b"a")]


def test_an_aborted_transaction_whose_index_has_no_room(tools, refused):
    """Readers know of it at once; a flush writes the entry first, so no restart forgets it."""
    log = tools.open()
    tools.append(log, b"a", producer=(5, 0, 0), transactional=True)
    tools.disk.calls, tools.disk.fail_at, tools.disk.failures = 0, 1, 2
    tools.append_marker(log, tools.marker(5, 0, commit=False))
    assert log.health.is_short_of_room
    assert [entry.first_offset for entry in log.aborted_transactions(0, 9)] == [0]
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        log.flush(tools.now_ms)
    assert (log.recovery_point, log.is_offline) == (0, False)
    log.flush(tools.now_ms)
    assert log.recovery_point == 2
    close_files(log)
    log = tools.open(clean=True)
    assert [entry.first_offset for entry in log.aborted_transactions(0, 9)] == [0]


def test_a_file_that_somebody_removed_is_no_broken_disk(tools, refused, caplog):
    """Who reads it is told so, the log of the broker says it once, and the directory serves on."""
    log = tools.open()
    (tools.root / ".lock").touch()
    tools.append(log, b"a")
    close_files(log)
    log_files(log)[-1].unlink()
    for _ in range(3):
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            tools.fetch(log, 0)
    assert not log.is_offline
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    (tools.root / ".lock").unlink()
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        tools.fetch(log, 0)
    assert log.is_offline


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOENT])
def test_a_log_that_cannot_be_opened_for_a_while(tools, refused, monkeypatch, error):
    """Out of descriptors: appends are refused, nothing is lost, and then all goes on."""
    (tools.root / ".lock").touch()
    log = tools.open()
    tools.append(log, b"a")
    close_files(log)

    def refuse(path, *, create=False):
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(tools.disk, "open", refuse)
        for _ in range(2):
            with refused(ErrorCode.KAFKA_STORAGE_ERROR):
                tools.append(log, b"b")
    assert not log.is_offline
    assert tools.append(log, b"c") == 1
    assert tools.values(log) == [(0, b"a"), (1, b"c")]


def test_half_a_batch_is_cut_before_anything_else_is_written(
    tools, refused, monkeypatch, make_tools
):
    """By the next append, a roll or a clean stop, when it couldn't be cut at once."""

    def refuse(fd, size_bytes):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    for what in ("append", "roll", "close"):
        one = make_tools(tools.root / what)
        log = one.open()
        one.append(log, b"a")
        whole_bytes = log.size_bytes
        one.disk.calls, one.disk.fail_at = 0, 0
        with monkeypatch.context() as patch:
            patch.setattr(one.disk, "truncate", refuse)
            with refused(ErrorCode.KAFKA_STORAGE_ERROR):
                one.append(log, b"b" * 1000)
            assert log_files(log)[-1].stat().st_size > whole_bytes
            with refused(ErrorCode.KAFKA_STORAGE_ERROR):
                log.close(one.now_ms)
        first = log_files(log)[0]
        if what == "append":
            one.append(log, b"c")
        elif what == "roll":
            log.roll(one.now_ms)
        else:
            log.close(one.now_ms)
        assert first.stat().st_size == whole_bytes * (1 + (what == "append"))


def test_an_append_that_cannot_be_indexed_leaves_no_trace(make_tools, tmp_path):
    """Not even while its bytes can't be cut: the largest timestamp is that of a record."""
    calls = 0
    for call in range(20):
        tools = make_tools(tmp_path / str(call))
        log = tools.open(index_interval_bytes=1)
        for later_ms in (0, 1, 2):
            tools.append(log, b"v", timestamp=tools.now_ms + later_ms)
        active = log.active

        def known(segment=active):
            indexes = segment.offset_index, segment.time_index
            times = segment.max_timestamp, segment.max_timestamp_offset
            return times, [(index.entries, index.last) for index in indexes]

        before = known()
        tools.disk.calls, tools.disk.fail_at, tools.disk.failures = 0, call, 2
        try:
            tools.append(log, b"refused", timestamp=tools.now_ms + 9)
        except KafkaError:
            calls += 1
            assert known() == before
        tools.disk.fail_at = -1
    assert calls >= 3
