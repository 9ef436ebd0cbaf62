"""Bytes that rest for their clients: whose connection ends when there are too many."""

import pytest

from kwire.budget.buffered_bytes_limit import HALF_S, BufferedBytesLimit


class Connection:
    """A connection that notes its end."""

    def __init__(self, buffered):
        self.peer_host = "10.0.0.1"
        self.has_ended = False
        self._resting = buffered

    def abort_nowait(self):
        self.has_ended = True
        self._resting.forget(self)


@pytest.fixture
def buffered():
    buffered = BufferedBytesLimit()
    buffered.max_bytes = lambda: 1000
    return buffered


def test_within_the_limit_nobody_ends(buffered):
    """A slow client may take its time while there is room."""
    slow, other = Connection(buffered), Connection(buffered)
    buffered.count_bytes(slow, 400, 0.0)
    buffered.count_bytes(other, 600, 1e6)
    assert not slow.has_ended
    assert not other.has_ended


def test_the_bytes_that_have_rested_longest_go_first(buffered, caplog):
    """A client that reads its large response quickly isn't the one that ends."""
    stuck, quick = Connection(buffered), Connection(buffered)
    buffered.count_bytes(stuck, 400, 0.0)
    buffered.count_bytes(quick, 700, 60.0)
    assert stuck.has_ended
    assert not quick.has_ended
    assert "kwire.resting.max.bytes=1000" in caplog.text
    assert buffered.held_bytes == 700


def test_many_small_waits_do_not_end_for_a_large_one(buffered):
    """Of bytes that have rested for about as long, the most go first."""
    small = [Connection(buffered) for _ in range(9)]
    for connection in small:
        buffered.count_bytes(connection, 50, 0.0)
    large = Connection(buffered)
    buffered.count_bytes(large, 900, 1.0)
    assert large.has_ended
    assert not any(connection.has_ended for connection in small)


def test_one_connection_alone_may_hold_more(buffered):
    """The limit is for many connections; ``kwire.response.max.bytes`` bounds one."""
    alone = Connection(buffered)
    buffered.count_bytes(alone, 5000, 0.0)
    assert not alone.has_ended


def test_bytes_that_were_sent_count_no_more(buffered):
    """After all is sent, the connection has a new start."""
    connection, other = Connection(buffered), Connection(buffered)
    buffered.count_bytes(connection, 900, 0.0)
    buffered.forget(connection)
    buffered.forget(connection)
    buffered.count_bytes(other, 900, 1.0)
    buffered.count_bytes(other, 100, 2.0)
    assert buffered.held_bytes == 100


def test_a_request_whose_rest_does_not_come_ends(buffered, caplog):
    """One of which bytes still come goes on, and so does one that is whole and waits."""
    silent, slow, whole, fresh = (Connection(buffered) for _ in range(4))
    buffered.count_bytes(silent, 10, 0.0, is_half=True)
    buffered.count_bytes(slow, 10, 0.0, is_half=True)
    buffered.count_bytes(whole, 10, 0.0)
    buffered.count_bytes(slow, 20, HALF_S - 1, is_half=True)
    buffered.count_bytes(fresh, 10, HALF_S - 1, is_half=True)
    buffered.end_overdue(HALF_S - 0.5)
    assert not silent.has_ended
    buffered.end_overdue(HALF_S)
    assert [one.has_ended for one in (silent, slow, whole, fresh)] == [True, False, False, False]
    assert buffered.held_bytes == 40


def test_of_very_many_connections_so_many_end_that_there_is_room_again(buffered, caplog):
    """Or each of them would have all looked through once more; the log gets one line."""
    buffered.max_bytes = lambda: 32_000
    many = [Connection(buffered) for _ in range(2000)]
    for place, connection in enumerate(many):
        buffered.count_bytes(connection, 16, place / 1000)
    assert not any(connection.has_ended for connection in many)
    buffered.count_bytes(Connection(buffered), 16, 2.0)
    assert sum(connection.has_ended for connection in many) == 126
    assert all(connection.has_ended for connection in many[:126])
    assert buffered.held_bytes == 30_000
    assert caplog.text.count("closing") == 1
    assert "and 125 more" in caplog.text
