"""Bytes that rest for their clients: whose connection ends when there are too many."""

import pytest

from kwire.budget.resting import HALF_S, RestingBytes


class Connection:
    """A connection that notes its end."""

    def __init__(self, resting):
        self.peer_host = "10.0.0.1"
        self.has_ended = False
        self._resting = resting

    def abort_nowait(self):
        self.has_ended = True
        self._resting.forget(self)


@pytest.fixture
def resting():
    resting = RestingBytes()
    resting.max_bytes = lambda: 1000
    return resting


def test_within_the_limit_nobody_ends(resting):
    """A slow client may take its time while there is room."""
    slow, other = Connection(resting), Connection(resting)
    resting.rest(slow, 400, 0.0)
    resting.rest(other, 600, 1e6)
    assert not slow.has_ended
    assert not other.has_ended


def test_the_bytes_that_have_rested_longest_go_first(resting, caplog):
    """A client that reads its large response quickly isn't the one that ends."""
    stuck, quick = Connection(resting), Connection(resting)
    resting.rest(stuck, 400, 0.0)
    resting.rest(quick, 700, 60.0)
    assert stuck.has_ended
    assert not quick.has_ended
    assert "kwire.resting.max.bytes=1000" in caplog.text
    assert resting.held_bytes == 700


def test_many_small_waits_do_not_end_for_a_large_one(resting):
    """Of bytes that have rested for about as long, the most go first."""
    small = [Connection(resting) for _ in range(9)]
    for connection in small:
        resting.rest(connection, 50, 0.0)
    large = Connection(resting)
    resting.rest(large, 900, 1.0)
    assert large.has_ended
    assert not any(connection.has_ended for connection in small)


def test_one_connection_alone_may_hold_more(resting):
    """The limit is for many connections; ``kwire.response.max.bytes`` bounds one."""
    alone = Connection(resting)
    resting.rest(alone, 5000, 0.0)
    assert not alone.has_ended


def test_bytes_that_were_sent_count_no_more(resting):
    """After all is sent, the connection has a new start."""
    connection, other = Connection(resting), Connection(resting)
    resting.rest(connection, 900, 0.0)
    resting.forget(connection)
    resting.forget(connection)
    resting.rest(other, 900, 1.0)
    resting.rest(other, 100, 2.0)
    assert resting.held_bytes == 100


def test_a_request_whose_rest_does_not_come_ends(resting, caplog):
    """One of which bytes still come goes on, and so does one that is whole and waits."""
    silent, slow, whole, fresh = (Connection(resting) for _ in range(4))
    resting.rest(silent, 10, 0.0, is_half=True)
    resting.rest(slow, 10, 0.0, is_half=True)
    resting.rest(whole, 10, 0.0)
    resting.rest(slow, 20, HALF_S - 1, is_half=True)
    resting.rest(fresh, 10, HALF_S - 1, is_half=True)
    resting.end_overdue(HALF_S - 0.5)
    assert not silent.has_ended
    resting.end_overdue(HALF_S)
    assert [one.has_ended for one in (silent, slow, whole, fresh)] == [True, False, False, False]
    assert resting.held_bytes == 40


def test_of_very_many_connections_so_many_end_that_there_is_room_again(resting, caplog):
    """Or each of them would have all looked through once more; the log gets one line."""
    resting.max_bytes = lambda: 32_000
    many = [Connection(resting) for _ in range(2000)]
    for place, connection in enumerate(many):
        resting.rest(connection, 16, place / 1000)
    assert not any(connection.has_ended for connection in many)
    resting.rest(Connection(resting), 16, 2.0)
    assert sum(connection.has_ended for connection in many) == 126
    assert all(connection.has_ended for connection in many[:126])
    assert resting.held_bytes == 30_000
    assert caplog.text.count("closing") == 1
    assert "and 125 more" in caplog.text
