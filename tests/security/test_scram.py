"""SCRAM: the examples of the RFCs, and messages that are replayed, altered or malformed."""

import re
from base64 import b64decode

import pytest

from kwire.metadata.scram import credential_of, salted
from kwire.security.principal import Principal
from kwire.security.sasl import LoginRefused
from kwire.security.scram import ScramExchange, Unknown

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SHA_256 = "SCRAM-SHA-256"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
UNKNOWN = Unknown.among({}, SHA_256, b"secret")
TOLD = "invalid credentials with SASL mechanism SCRAM-SHA-256"


def _credential(mechanism=SHA_256):
    return credential_of(mechanism, salted(mechanism, b"pencil", SALT, 4096), SALT, 4096)


def _exchange(users=None, nonce=SERVER_NONCE):
    known = {"user": _credential()} if users is None else users
    return ScramExchange(SHA_256, known.get, nonce, UNKNOWN)


def _refused(exchange, message):
    with pytest.raises(LoginRefused) as caught:
        exchange.step(message, 0)
    assert exchange.identity is None
    assert TOLD in caught.value.told
    return str(caught.value)


def test_the_example_of_rfc_7677():
    """Both messages of the broker are those of the RFC."""
    exchange = _exchange()
    assert exchange.step(FIRST, 0) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.identity is None
    assert exchange.step(FINAL, 0) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.identity is not None
    assert exchange.identity.principal == Principal("User", "user")


def test_messages_of_another_login_are_of_no_use():
    """Who has listened to a login can't repeat it: the broker's nonce is another one."""
    exchange = _exchange(nonce="another")
    exchange.step(FIRST, 0)
    assert "another login" in _refused(exchange, FINAL)
    assert "another login" in _refused_after_first(FINAL.replace(b"biws", b"eSws"))


def test_a_long_message_is_refused_unread():
    """Half a megabyte of extensions would take 40 ms of everybody's time."""
    assert "too long" in _refused(_exchange(), b"n,,n=user,r=x" + b",x" * 250_000)


def _refused_after_first(final):
    exchange = _exchange()
    exchange.step(FIRST, 0)
    return _refused(exchange, final)


@pytest.mark.parametrize(
    ("final", "problem"),
    [
        (FINAL.replace(b"p=d", b"p=e"), "wrong name or password"),
        (FINAL[:-2], "base64"),
        (FINAL[:-8] + b"", "wrong name or password"),
        (FINAL.partition(b",p=")[0], "malformed"),
        (FINAL.replace(b",p=", b",x=1,p="), "wrong name or password"),
        (b"", "malformed"),
        (b"\xff", "UTF-8"),
        (FIRST, "malformed"),
    ],
)
def test_an_altered_proof_is_refused(final, problem):
    """Whatever of the last message was changed."""
    assert problem in _refused_after_first(final)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=,r=x",
        b"n,,n=user",
        b"p=tls-unique,,n=user,r=x",
        b"y,,n=user,r=x",
        b"n,a=other,n=user,r=x",
        b"n,,n=us=er,r=x",
        b"n,,m=ext,n=user,r=x",
    ],
)
def test_a_first_message_that_asks_for_something_else(first):
    """Channel binding, another authorization id, mandatory extensions, broken names."""
    _refused(_exchange(), first)


def test_an_unknown_user_looks_like_one_with_a_wrong_password():
    """It gets a salt of its own, the same each time, and is refused at the end."""
    salts = []
    for name in (b"eve", b"eve", b"mallory"):
        exchange = _exchange(users={})
        challenge = exchange.step(b"n,,n=%s,r=x" % name, 0).decode()
        assert challenge.endswith("i=4096")
        salts.append(challenge.partition("s=")[2])
        final = b"c=biws,r=x%s,p=%s" % (SERVER_NONCE.encode(), b"A" * 43 + b"=")
        assert "wrong name or password for user" in _refused(exchange, final)
    assert salts[0] == salts[1] != salts[2]


def test_an_unknown_user_has_as_many_iterations_as_the_others():
    """Users that kafka-configs has made have 8192, for instance."""
    model = _credential()._replace(iterations=8192)
    exchange = ScramExchange(SHA_256, {}.get, "n", UNKNOWN._replace(model=model))
    assert exchange.step(b"n,,n=eve,r=x", 0).endswith(b",i=8192")


@pytest.mark.parametrize(
    ("salt", "pattern"),
    [
        (b"1u3xkq8pl5oy1v9cf6t2d0zgn", rb"[0-9a-z]{22,26}"),  # as Kafka's tools make them
        (bytes(range(64)), rb"(?s).{64}"),
        (SALT, rb"(?s).{16}"),
    ],
)
def test_the_salt_of_an_unknown_user_looks_like_the_others(salt, pattern):
    """Otherwise its length, or another broker's answer, would tell who exists."""
    model = _credential()._replace(salt=salt)
    users = {(SHA_256, "bob"): model, (SHA_256, "eve"): _credential()}
    made = Unknown.among(users, SHA_256, b"one broker").credential("mallory")
    assert re.fullmatch(pattern, made.salt)
    assert made.salt != salt
    assert made.iterations == 4096
    order = dict(reversed(users.items()))
    assert made == Unknown.among(order, SHA_256, b"another").credential("mallory")


def test_names_with_commas_and_equals_signs():
    """RFC 5802's escapes; the principal has the plain name."""
    asked = []
    exchange = ScramExchange(SHA_256, asked.append, "n", UNKNOWN)
    exchange.step(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=x", 0)
    assert asked == ["a,b=c"]


def test_sha_512_has_longer_keys():
    """And another proof."""
    assert len(_credential("SCRAM-SHA-512").stored_key) == 64


@pytest.mark.parametrize("message", [b"n,,n=user,r=x" + b",x" * 8192, b"n,,n=" + b"a" * 16_384])
def test_a_long_message_has_no_second_step(message):
    """A client that nobody knows yet costs the event loop little."""
    assert "too long" in _refused(_exchange(), message)
