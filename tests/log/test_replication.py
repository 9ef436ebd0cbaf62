"""The append of a follower: its leader's batches, as they are."""

import pytest

from kwire.errors import ErrorCode
from kwire.log.replication import Overlap, append_replicated
from tests.support.log_scan import check_log
from tests.support.log_state import (
    base_offsets,
    known_producers,
    leader_epochs,
    log_files,
    segment_sizes,
)


def batch_at(tools, base, *values, epoch=0, **options):
    """A batch as a leader has it."""
    data = tools.batch(*values, **options)
    data[:8] = base.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return data


def replicate(tools, log, data, epoch=9):
    """Append at the leader epoch that this follower follows."""
    return append_replicated(log, data, leader_epoch=epoch, now_ms=tools.now_ms)


def test_what_a_fetch_brings_is_written_with_one_call(tools):
    """All batches of an answer, the incomplete last one left out."""
    log = tools.open(index_interval_bytes=200)
    data = bytearray()
    for number in range(20):
        data += batch_at(tools, 2 * number, b"x" * 50, b"y", epoch=number // 10)
    cut = batch_at(tools, 40, b"z")[:-1]
    before = tools.disk.calls
    assert replicate(tools, log, data + cut) == 20
    assert log.log_end_offset == 40
    assert leader_epochs(log) == [(0, 0), (1, 20)]
    writes = tools.disk.calls - before
    assert writes <= 2 + 2 * log.active.offset_index.entries
    assert log.active.offset_index.entries > 5
    check_log(log)


def test_an_answer_may_go_into_several_segments(tools):
    """As many batches as fit into each, as if they had come one by one."""
    log = tools.open(segment_bytes=700, index_interval_bytes=100, segment_index_bytes=24)
    data = b"".join(
        batch_at(tools, number, b"x" * 60, producer=(5, 0, number)) for number in range(40)
    )
    replicate(tools, log, data)
    assert len(base_offsets(log)) > 5
    assert max(segment_sizes(log)) <= 700
    assert [offset for offset, _ in tools.values(log)] == list(range(40))
    assert known_producers(log)[5].last_sequence == 39
    check_log(log)
    assert tools.open(clean=False).log_end_offset == 40


def test_batches_of_a_newer_epoch_are_left_out(tools):
    """They come from a leader that the follower doesn't know yet (KAFKA-18723)."""
    log = tools.open()
    data = batch_at(tools, 0, b"a", epoch=3) + batch_at(tools, 1, b"b", epoch=5)
    data += batch_at(tools, 2, b"c", epoch=4)
    assert replicate(tools, log, data, epoch=4) == 1
    assert log.log_end_offset == 1
    assert leader_epochs(log) == [(3, 0)]


def test_nothing_is_appended_of_an_answer_with_a_wrong_checksum(tools, refused):
    """The follower fetches it again."""
    log = tools.open()
    data = batch_at(tools, 0, b"a") + batch_at(tools, 1, b"b")
    data[-1] ^= 1
    with refused(ErrorCode.CORRUPT_MESSAGE):
        replicate(tools, log, data)
    assert log.log_end_offset == 0


def test_an_overlap_says_where_the_batch_begins(tools):
    """An empty log can begin there, others can't have it."""
    log = tools.open(log_start_offset=100)
    with pytest.raises(Overlap) as refused:
        replicate(tools, log, batch_at(tools, 98, b"a", b"b", b"c", b"d"))
    assert refused.value.base_offset == 98
    assert log.log_end_offset == 100


def test_a_failed_write_leaves_nothing_behind(tools, refused):
    """The half that was written is cut; the next try succeeds."""
    log = tools.open()
    data = batch_at(tools, 0, b"a" * 100) + batch_at(tools, 1, b"b" * 100)
    tools.disk.fail_at = tools.disk.calls
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        replicate(tools, log, data)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    tools.disk.fail_at = -1
    assert replicate(tools, log, data) == 2
    check_log(log)


def test_transactions_are_known_to_a_follower(tools):
    """It leads some day, and then knows what is open and what was aborted."""
    leader = tools.open()
    tools.append(leader, b"a", producer=(7, 0, 0), transactional=True)
    tools.append(leader, b"b", producer=(8, 0, 0), transactional=True)
    tools.append_marker(leader, tools.marker(7, 0, commit=False))
    data = log_files(leader)[-1].read_bytes()
    tools.directory = tools.root / "u-0"
    follower = tools.open()
    assert replicate(tools, follower, data) == 3
    assert follower.first_unstable_offset == leader.first_unstable_offset == 1
    assert follower.aborted_transactions(0, 3) == leader.aborted_transactions(0, 3) != []
