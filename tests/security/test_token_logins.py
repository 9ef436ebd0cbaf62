"""What SCRAM is told of delegation tokens, and which extension of a login asks for one."""

import pytest

from kwire.client.secured import scram_messages
from kwire.metadata.scram import MIN_ITERATIONS
from kwire.metadata.tokens import Lifetimes, new_token, salt_of, secret_of
from kwire.security.principal import Principal
from kwire.security.sasl import Identity, LoginRefused
from kwire.security.scram import ScramExchange, Unknown
from kwire.security.token_logins import TokenLogins

ALICE, KEY, SHA_512 = ("User", "alice"), "key", "SCRAM-SHA-512"
SECRET = secret_of(KEY, "id")
TOKEN = new_token(ALICE, ("User", "admin"), [], -1, 1000, Lifetimes(9000, 500))._replace(
    digest=SECRET.digest, credentials=SECRET.credentials(salt_of(KEY, "id"))
)
LOGINS = TokenLogins(KEY, {"id": TOKEN}.copy)


def _login(extensions, now_ms=1000, tokens=LOGINS, user="id"):
    """Who has logged in."""
    unknown = Unknown.among({}, SHA_512, b"secret")
    exchange = ScramExchange(SHA_512, {}.get, "nonce", unknown, tokens)
    client = scram_messages("sha512", user, SECRET.password.decode(), "mine", extensions)
    challenge = exchange.step(next(client), now_ms)
    exchange.step(client.send(challenge), now_ms)
    return exchange.identity


@pytest.mark.parametrize(
    "extensions", [",tokenauth=true", ",a=b,tokenauth=TRUE", ",tokenauth=true,x=y"]
)
def test_a_token_makes_its_owner(extensions):
    """Not the requester; the login lasts as long as the token."""
    identity = _login(extensions)
    assert identity == Identity(Principal(*ALICE), TOKEN.expires_ms, is_by_token=True)


@pytest.mark.parametrize(
    "extensions", ["", ",tokenauth=false", ",xtokenauth=true", ",tokenauth=trueish"]
)
def test_without_the_extension_it_is_no_token(extensions):
    """Then the id is the name of a user, whom nobody knows."""
    with pytest.raises(LoginRefused):
        _login(extensions)


def test_tokens_that_are_no_login():
    """Expired, of another key, unknown; or there are no tokens at all."""
    for refused in (
        {"now_ms": TOKEN.expires_ms + 1},
        {"tokens": TokenLogins("another key", {"id": TOKEN}.copy)},
        {"user": "other"},
        {"tokens": None},
    ):
        with pytest.raises(LoginRefused):
            _login(",tokenauth=true", **refused)
    assert _login(",tokenauth=true", now_ms=TOKEN.expires_ms) is not None


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_token_that_ends_within_a_login(is_deleted):
    """Its time is up, or its owner has ended it, before the last message: nobody has logged in."""
    known = {"id": TOKEN}
    tokens = TokenLogins(KEY, lambda: known)
    exchange = ScramExchange(SHA_512, {}.get, "n", Unknown.among({}, SHA_512, b"s"), tokens)
    client = scram_messages("sha512", "id", SECRET.password.decode(), "m", ",tokenauth=true")
    last = client.send(exchange.step(next(client), TOKEN.expires_ms))
    if is_deleted:
        known.clear()
    with pytest.raises(LoginRefused, match="has ended meanwhile"):
        exchange.step(last, TOKEN.expires_ms + (not is_deleted))
    assert exchange.identity is None


def test_an_unknown_id_has_the_salt_of_a_token():
    """So nobody learns which tokens there are."""
    found = LOGINS.find(SHA_512, "id", 1000)
    assert found.credential.salt == salt_of(KEY, "id")
    unknown = LOGINS.find(SHA_512, "other", 1000)
    assert unknown.token is None
    assert unknown.credential.salt == salt_of(KEY, "other")
    assert unknown.credential.iterations == found.credential.iterations == MIN_ITERATIONS
