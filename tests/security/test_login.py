"""The login of a connection: which requests when, sessions that end, logins that follow."""

import pytest

from kwire.security.login import Login
from kwire.security.principal import ANONYMOUS, Principal
from kwire.security.sasl import Identity, LoginRefused

METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE = 3, 17, 18, 36
ALICE = Principal("User", "alice")


class _Echo:
    """Logs in whoever is named, at the second message."""

    def __init__(self, expires_ms=None):
        self.identity = None
        self._expires_ms = expires_ms

    def step(self, message, now_ms):
        if message == b"no":
            raise LoginRefused("no is no name", "told")
        if message != b"hello":
            self.identity = Identity(Principal("User", message.decode()), self._expires_ms)
        return message


def _login(max_session_ms=0, expires_ms=None):
    mechanisms = {"PLAIN": lambda: _Echo(expires_ms), "OTHER": _Echo}
    return Login(mechanisms, {"PLAIN": max_session_ms, "OTHER": 0})


def _allowed(login, now_s=0.0):
    keys = (METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE)
    return {key for key in keys if login.refusal(key, now_s) is None}


def test_only_the_requests_of_a_login_come_before_it():
    """And in the middle of it only its messages; afterwards everything."""
    login = _login()
    assert _allowed(login) == {HANDSHAKE, API_VERSIONS, AUTHENTICATE}
    assert login.start_exchange("PLAIN", 0)
    assert _allowed(login) == {AUTHENTICATE}
    assert not login.start_exchange("PLAIN", 10)
    assert login.step(b"hello", 0, 0) == (b"hello", 0)
    assert (login.principal, login.is_open, login.has_news) == (ANONYMOUS, False, False)
    assert login.step(b"alice", 0, 0) == (b"alice", 0)
    assert (login.principal, login.is_open, login.has_news) == (ALICE, True, True)
    assert len(_allowed(login, 1e9)) == 4


@pytest.mark.parametrize(
    ("max_ms", "token_ms", "session_ms"),
    [(0, None, 0), (5000, None, 5000), (5000, 103_000, 3000), (0, 103_000, 3000), (9, 103_000, 9)],
)
def test_a_session_ends_with_the_token_or_after_the_longest_time(max_ms, token_ms, session_ms):
    """Whichever is first; the client is told, and served until then."""
    login = _login(max_ms, token_ms)
    login.start_exchange("PLAIN", 50)
    assert login.step(b"alice", 100_000, 50) == (b"alice", session_ms)
    end_s = 50 + session_ms / 1000 if session_ms else 1e9
    assert METADATA in _allowed(login, end_s - 0.001)
    if session_ms:
        assert _allowed(login, end_s) == {HANDSHAKE, API_VERSIONS, AUTHENTICATE}


def test_who_logs_in_again_stays_the_same():
    """Another user or another mechanism ends the connection; so does hurry, without an end."""
    login = _login(5000)
    login.start_exchange("PLAIN", 0)
    login.step(b"alice", 0, 0)
    assert not login.start_exchange("PLAIN", 0.5)
    assert login.start_exchange("PLAIN", 2)
    assert _allowed(login, 2) == {AUTHENTICATE}
    assert login.step(b"alice", 2000, 2)[1] == 5000
    assert login.start_exchange("PLAIN", 4)
    with pytest.raises(LoginRefused, match="another user, 'bob'"):
        login.step(b"bob", 4000, 4)
    assert login.principal == ALICE
    with pytest.raises(LoginRefused, match="another mechanism"):
        login.start_exchange("OTHER", 6)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a" * 32_767, None),
        ("a" * 32_768, "has 32768 bytes, and may have 32767"),
        ("\N{EURO SIGN}" * 10_923, "has 32769 bytes, and may have 32767"),
        ("al\ud800ice", "isn't text: it holds half of a surrogate pair"),
    ],
)
def test_a_name_that_no_message_can_carry_is_refused_by_every_mechanism(name, problem):
    """The client has proved it, so the answer says what is wrong; the log can be written."""
    login = Login({"PLAIN": lambda: _Named(name)}, {"PLAIN": 0})
    login.start_exchange("PLAIN", 0)
    if problem is None:
        login.step(b"", 0, 0)
        assert login.is_open
        return
    with pytest.raises(LoginRefused) as caught:
        login.step(b"", 0, 0)
    assert caught.value.told == f"Authentication failed: the name of the user {problem}"
    assert not login.is_open
    assert problem in login.failure
    login.failure.encode()


class _Named:
    """Logs in this name."""

    def __init__(self, name):
        self.identity = Identity(Principal("User", name))

    def step(self, message, now_ms):
        return message


def test_a_failure_is_noted_for_the_log():
    """Of an exchange, and of a mechanism that isn't enabled."""
    login = _login()
    login.start_exchange("PLAIN", 0)
    with pytest.raises(LoginRefused):
        login.step(b"no", 0, 0)
    assert (login.failure, login.has_news, login.is_open) == ("no is no name", True, False)
    with pytest.raises(LoginRefused, match="GSSAPI"):
        _login().start_exchange("GSSAPI", 0)
