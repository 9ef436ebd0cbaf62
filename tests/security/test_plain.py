"""PLAIN: a name and a password, as RFC 4616 has them."""

import pytest

from kwire.security import plain
from kwire.security.jaas import parse_jaas
from kwire.security.plain import PlainExchange, users_of
from kwire.security.principal import Principal
from kwire.security.sasl import LoginRefused

USERS = users_of(parse_jaas('x.PlainLoginModule required username=a user_alice="sécret" user_b=c;'))


def test_users_are_those_with_the_prefix():
    """``username`` is the broker's own login, and no user."""
    assert {"alice": "sécret".encode(), "b": b"c"} == USERS


@pytest.mark.parametrize("message", ["\0alice\0sécret", "alice\0alice\0sécret"])
def test_the_right_password_logs_in(message):
    """With or without the authorization id."""
    exchange = PlainExchange(USERS)
    assert exchange.step(message.encode(), 0) == b""
    assert exchange.identity is not None
    assert exchange.identity.principal == Principal("User", "alice")


@pytest.mark.parametrize(
    "message",
    [
        b"\0alice\0wrong",
        b"\0alice\0",
        b"\0\0",
        b"\0eve\0s",
        b"b\0alice\0s\xc3\xa9cret",
        b"alice",
        b"\0alice\0s\xc3\xa9cret\0",
        b"\0\xff\0x",
        b"",
        b"\0USERNAME\0a",
    ],
)
def test_anything_else_is_refused_with_one_text(message):
    """The client can't tell an unknown name from a wrong password; the log has no password."""
    exchange = PlainExchange(USERS)
    with pytest.raises(LoginRefused) as caught:
        exchange.step(message, 0)
    assert exchange.identity is None
    assert caught.value.told == "Authentication failed: Invalid username or password"
    assert "sécret" not in str(caught.value)
    assert "wrong'" not in str(caught.value)


@pytest.mark.parametrize("name", ["alice", "eve"])
def test_the_time_does_not_tell_which_users_exist(monkeypatch, name):
    """What is compared is as long as what the client has sent, whether there is such a user."""
    lengths = []

    def compare(own, given):
        lengths.append(len(given))
        return own == given

    monkeypatch.setattr(plain, "compare_digest", compare)
    with pytest.raises(LoginRefused):
        PlainExchange(USERS).step(f"\0{name}\0{'x' * 10_000}".encode(), 0)
    assert lengths == [10_000]


def test_a_long_message_is_refused_unread():
    """A client that nobody knows yet costs the event loop little."""
    with pytest.raises(LoginRefused, match="too long"):
        PlainExchange(USERS).step(b"\0" * 16_385, 0)
