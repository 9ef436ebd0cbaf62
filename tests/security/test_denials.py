"""No client fills the audit log: what is left out is counted, and told."""

import logging

import pytest

from kwire.security.denials import MOST_CLIENTS, MOST_LINES, OTHERS, WINDOW_S, Denials


class Time:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def time():
    return Time()


@pytest.fixture(autouse=True)
def audited(caplog):
    """The lines are wanted."""
    with caplog.at_level(logging.INFO, "kwire.authorizer"):
        yield


def test_a_client_has_only_so_many_lines(time, caplog):
    """What it is denied beyond that is one line, when its time is over."""
    denials = Denials(time)
    lines = [denials.has_line("User:eve", "10.0.0.9") for _ in range(MOST_LINES + 7)]
    assert lines == [True] * MOST_LINES + [False] * 7
    denials.tell()
    assert not caplog.records
    time.now_s += WINDOW_S
    denials.tell()
    [record] = caplog.records
    assert record.getMessage() == (
        "Principal = User:eve from host = 10.0.0.9: 7 more denials like these within 10 s"
    )
    assert record.fields == {"principal": "User:eve", "host": "10.0.0.9", "left_out": 7}
    assert denials.has_line("User:eve", "10.0.0.9")


def test_a_flood_takes_no_line_from_another_client(time):
    """Each principal at each address has lines of its own."""
    denials = Denials(time)
    for _ in range(10 * MOST_LINES):
        denials.has_line("User:eve", "10.0.0.9")
    assert denials.has_line("User:eve", "10.0.0.1")
    assert denials.has_line("User:bob", "10.0.0.9")


def test_who_stays_within_the_limit_is_told_of_nothing(time, caplog):
    """The next seconds begin at zero."""
    denials = Denials(time)
    for _ in range(3):
        assert all(denials.has_line("User:eve", "h") for _ in range(MOST_LINES))
        time.now_s += WINDOW_S
    denials.tell()
    assert not caplog.records


def test_clients_beyond_a_number_share_their_lines(time, caplog):
    """A client with many addresses doesn't fill the log or the memory."""
    denials = Denials(time)
    lines = [denials.has_line("User:eve", f"host-{n}") for n in range(3 * MOST_CLIENTS)]
    assert sum(lines) == MOST_CLIENTS + MOST_LINES
    time.now_s += WINDOW_S
    denials.tell()
    [record] = caplog.records
    assert record.getMessage().startswith(f"Principal = {OTHERS[0]} from host = {OTHERS[1]}: ")
