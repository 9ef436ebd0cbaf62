"""No client fills the audit log: what is left out is counted, and told."""

import logging

import pytest

from kwire.security.audit_limits import (
    MOST_CLIENTS,
    MOST_LINES,
    MOST_PER_SECOND,
    OTHERS,
    WINDOW_S,
    AuditLimits,
)


class Time:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self):
        return int(self.now_s * 1000)


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
    denials = AuditLimits("denials", steady_ms=time)
    lines = [denials.has_line("User:eve", "10.0.0.9") for _ in range(MOST_LINES + 7)]
    assert lines == [True] * MOST_LINES + [False] * 7
    denials.log_left_out()
    assert not caplog.records
    time.now_s += WINDOW_S
    denials.log_left_out()
    [record] = caplog.records
    assert record.getMessage() == (
        "Principal = User:eve from host = 10.0.0.9: 7 more denials like these within 10 s"
    )
    assert record.fields == {"principal": "User:eve", "host": "10.0.0.9", "left_out": 7}
    assert denials.has_line("User:eve", "10.0.0.9")


def test_all_clients_together_have_only_so_many_lines(time, caplog):
    """What is left out of a second is told, although each client is within its own limit."""
    denials = AuditLimits("denials", steady_ms=time)
    clients = [f"User:u{n % 50}" for n in range(MOST_PER_SECOND + 300)]
    lines = [denials.has_line(name, "10.0.0.9") for name in clients]
    assert sum(lines) == MOST_PER_SECOND
    time.now_s += 1
    denials.log_left_out()
    [record] = caplog.records
    assert record.getMessage() == ("300 more denials within a second, beyond 200 of all principals")
    assert record.fields == {"left_out": 300}
    assert denials.has_line("User:u1", "10.0.0.9")


def test_a_flood_takes_no_line_from_another_client(time):
    """Each principal at each address has lines of its own."""
    denials = AuditLimits("denials", steady_ms=time)
    for _ in range(10 * MOST_LINES):
        denials.has_line("User:eve", "10.0.0.9")
    assert denials.has_line("User:eve", "10.0.0.1")
    assert denials.has_line("User:bob", "10.0.0.9")


def test_who_stays_within_the_limit_is_told_of_nothing(time, caplog):
    """The next seconds begin at zero."""
    denials = AuditLimits("denials", steady_ms=time)
    for _ in range(3):
        assert all(denials.has_line("User:eve", "h") for _ in range(MOST_LINES))
        time.now_s += WINDOW_S
    denials.log_left_out()
    assert not caplog.records


def test_clients_beyond_a_number_share_their_lines(time, caplog):
    """A client with many addresses doesn't fill the log or the memory."""
    denials = AuditLimits("denials", steady_ms=time)
    lines = 0
    for n in range(MOST_CLIENTS + 8 * MOST_LINES):  # just less than a second's limit, for 9.5 s
        time.now_s += 1 / (MOST_PER_SECOND - 10)
        lines += denials.has_line("User:eve", f"host-{n}")
    assert lines == MOST_CLIENTS + MOST_LINES
    caplog.clear()
    time.now_s += WINDOW_S
    denials.log_left_out()
    [record] = caplog.records
    assert record.getMessage().startswith(f"Principal = {OTHERS[0]} from host = {OTHERS[1]}: ")
