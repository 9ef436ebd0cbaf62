"""The audit log's lines for logins: nobody's line is lost in a flood that another one makes."""

import logging
from types import SimpleNamespace

import pytest

from kwire.security.audit_limits import MOST_LINES
from kwire.security.login_lines import LoginLines
from kwire.security.principal import Principal


@pytest.fixture(autouse=True)
def audited(caplog):
    """The lines are wanted."""
    with caplog.at_level(logging.INFO, "kwire.logins"):
        yield


def test_a_flood_of_failures_hides_no_other_address_and_no_login(caplog):
    """An address has so many lines, whatever it tries; the next one has its own."""
    lines = LoginLines()
    alice = SimpleNamespace(
        principal=Principal("User", "alice"), peer_host="10.0.0.9", listener="SASL_SSL"
    )
    for port in range(MOST_LINES + 300):
        lines.note_failure(f"10.0.0.9:{port}", "authentication failed: wrong name")
    lines.note_failure("10.0.0.7:40312", "authentication failed: wrong password for 'admin'")
    lines.log_login(alice, "PLAIN")
    *flood, other, login = caplog.records
    assert len(flood) == MOST_LINES
    assert other.getMessage() == (
        "closing the connection from 10.0.0.7:40312: "
        "authentication failed: wrong password for 'admin'"
    )
    assert other.fields == {
        "host": "10.0.0.7",
        "reason": "authentication failed: wrong password for 'admin'",
    }
    assert login.fields["principal"] == "User:alice"


def test_logins_have_limits_too(caplog):
    """A user who logs in all the time takes no line from another one, nor at another address."""
    lines = LoginLines()
    for name, host in (*[("eve", "10.0.0.9")] * 500, ("bob", "10.0.0.9"), ("eve", "::1")):
        principal = Principal("User", name)
        lines.log_login(SimpleNamespace(principal=principal, peer_host=host, listener="S"), "PLAIN")
    assert len(caplog.records) == MOST_LINES + 2
