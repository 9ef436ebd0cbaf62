"""Compaction and producers: transactions, markers, and what keeps a producer's state."""

import pytest

from kwire.errors import ErrorCode
from tests.support.log_state import known_producers


def test_an_active_producer_keeps_its_last_batch_if_need_be_empty(compaction, refused):
    """Its sequence must survive a rebuild of the state from the log alone."""
    c = compaction()
    c.put("a", "1", producer=(1, 0, 0))
    c.put("a", "2", producer=(1, 0, 1))
    c.put("a", "3")
    assert c.compact() is not None
    assert c.shapes() == [(1, 1, 0), (2, 2, 1)]
    for path in c.tools.directory.glob("*.snapshot"):
        path.unlink()
    c.reopen()
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        c.put("a", "4", producer=(1, 0, 3))
    assert c.put("a", "4", producer=(1, 0, 2)) == 3
    assert c.compact() is not None
    assert c.shapes() == [(3, 3, 1)]


def test_the_batch_of_a_producer_that_expired_goes(compaction):
    """Nobody will go on from there."""
    c = compaction(producer_id_expiration_ms=1000)
    c.put("a", "1", producer=(1, 0, 0))
    c.put("a", "2")
    c.now_ms += 1000
    c.log.producers.expire(lambda at_ms: c.now_ms - at_ms, c.log.config.producer_id_expiration_ms)
    assert c.compact() is not None
    assert c.shapes() == [(1, 1, 1)]


def test_aborted_records_go_at_once_and_don_t_hide_others(compaction):
    """Whatever their keys; the marker waits for its delete horizon, which begins without data."""
    c = compaction()
    c.put("a", "kept")
    c.put("a", "aborted", producer=(1, 0, 0), transactional=True)
    c.put("b", "aborted", producer=(1, 0, 1), transactional=True)
    c.end(1, commit=False)
    c.put("c", "1", producer=(1, 0, 2), transactional=True)
    c.end(1, commit=True)
    c.put("z", "1")
    assert c.compact() is not None
    assert c.contents() == [(0, "a", "kept"), (4, "c", "1"), (6, "z", "1")]
    assert c.shapes() == [(0, 0, 1), (3, 3, 1), (4, 4, 1), (5, 5, 1), (6, 6, 1)]
    assert [a.last_offset for a in c.log.aborted_transactions(0, 7)] == [3]

    c.put("z", "2")  # no data of the aborted transaction is left: the horizon is set
    assert c.compact() is not None
    abort = c.tools.batches(c.log)[1]
    assert (abort.base_offset, abort.delete_horizon_ms) == (3, c.now_ms + 1000)
    assert c.log.aborted_transactions(0, 8) == []

    c.now_ms += 1000
    c.put("z", "3")
    assert c.compact() is not None
    assert c.shapes() == [(0, 0, 1), (4, 4, 1), (5, 5, 1), (8, 8, 1)]


def test_the_marker_of_a_committed_transaction_stays_as_long_as_its_data(compaction):
    """A consumer that reads committed needs it for what came before."""
    c = compaction()
    c.put("a", "1", producer=(1, 0, 0), transactional=True)
    c.put("b", "1", producer=(1, 0, 1), transactional=True)
    c.end(1, commit=True)
    for number in range(3):
        c.put("a", f"x{number}")
        c.now_ms += 2000
        assert c.compact() is not None
    assert c.shapes() == [(1, 1, 1), (2, 2, 1), (5, 5, 1)]
    assert c.tools.batches(c.log)[1].delete_horizon_ms is None
    c.put("b", "y")
    assert c.compact() is not None  # the data is there for its sequence only
    assert c.shapes() == [(1, 1, 0), (2, 2, 1), (5, 5, 1), (6, 6, 1)]
    known_producers(c.log).clear()
    c.put("b", "z")
    assert c.compact() is not None
    c.now_ms += 1000
    c.put("b", "!")
    assert c.compact() is not None  # the marker got its horizon a clean after the data went
    assert 2 in [first for first, _, _ in c.shapes()]
    c.now_ms += 1000
    c.put("b", "?")
    assert c.compact() is not None
    assert c.contents() == [(5, "a", "x2"), (9, "b", "?")]
    assert [first for first, _, _ in c.shapes()] == [5, 9]


def test_the_marker_of_a_producer_without_data_keeps_its_epoch(compaction, refused):
    """The fence of InitProducerId must survive a rebuild of the state."""
    c = compaction()
    c.put("a", "1", producer=(1, 0, 0), transactional=True)
    c.end(1, commit=False, epoch=5)
    c.put("b", "1")
    for _ in range(3):
        c.now_ms += 1000
        c.put("b", "2")
        assert c.compact() is not None
    assert c.shapes()[0] == (1, 1, 0)
    for path in c.tools.directory.glob("*.snapshot"):
        path.unlink()
    c.put("q", "1")
    assert c.compact() is not None
    assert c.shapes()[0] == (1, 1, 0)
    assert known_producers(c.log)[1].producer_epoch == 5


def test_nothing_beyond_an_open_transaction_is_cleaned(compaction):
    """The last stable offset bounds it, by whole segments."""
    c = compaction(segment_bytes=200)
    for number in range(6):
        c.put("a", f"before {number}")
    first = c.put("a", "open", producer=(1, 0, 0), transactional=True)
    for number in range(6):
        c.put("a", f"after {number}")
    assert c.compact() is not None
    bound = max(base for base in c.bases() if base <= first)
    assert c.log.first_dirty_offset == bound
    assert [offset for offset, _, _ in c.contents()] == list(range(bound - 1, 13))
    c.end(1, commit=False)
    assert c.compact() is not None
    assert c.contents() == [(12, "a", "after 5")]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_over_many_segments(compaction, commit):
    """Its end is known before its beginning is rewritten, whichever segment has the marker."""
    c = compaction(segment_bytes=220)
    for number in range(9):
        c.put(f"k{number}", "1", producer=(1, 0, number), transactional=True)
        c.put("other", str(number))
    c.end(1, commit=commit)
    c.put("last", "1")
    assert c.compact() is not None
    wanted = [(2 * n, f"k{n}", "1") for n in range(9)] if commit else []
    assert c.contents() == [*wanted, (17, "other", "8"), (19, "last", "1")]
    c.log.close(c.now_ms)
    aborted = [(a.first_offset, a.last_offset) for a in c.log.aborted_transactions(0, 20)]
    assert aborted == ([] if commit else [(0, 18)])


def test_an_aborted_transaction_doesn_t_taint_the_next_one(compaction):
    """The dirty part begins after the marker: what the same producer commits then counts."""
    c = compaction()
    c.put("a", "1", producer=(1, 0, 0), transactional=True)
    c.end(1, commit=False)
    c.put("b", "1")
    assert c.compact() is not None
    c.put("b", "2", producer=(1, 0, 1), transactional=True)
    c.end(1, commit=True)
    assert c.compact() is not None
    assert c.contents() == [(3, "b", "2")]
