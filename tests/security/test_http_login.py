"""Headers of HTTP are logins as on a listener: the same users, the same refusals."""

from base64 import b64encode
from functools import partial

import pytest

from kwire.metadata.scram import HASHES, ScramCredential, credential_of, salted
from kwire.security.http_login import log_in, schemes
from kwire.security.oauth import OauthExchange, TokenRules, unsecured
from kwire.security.plain import PlainExchange
from kwire.security.sasl import LoginRefused, NewExchange
from kwire.security.scram import ScramExchange, Unknown

PASSWORD = "pä:ss,w=rd"


def scram(mechanism: str) -> NewExchange:
    """SCRAM with one user, whose name has to be escaped."""
    salt = b"0123456789abcdefghij"
    known = credential_of(mechanism, salted(mechanism, PASSWORD.encode(), salt, 4096), salt, 4096)

    def lookup(user: str) -> ScramCredential | None:
        return known if user == "a,=lice" else None

    unknown = Unknown.among({}, mechanism, b"secret")
    return lambda: ScramExchange(mechanism, lookup, "nonce", unknown)


def basic(text: str) -> bytes:
    """The header of a login with a password."""
    return b"Basic " + b64encode(text.encode())


@pytest.mark.parametrize("mechanism", HASHES)
def test_passwords_of_scram(mechanism: str) -> None:
    """The one of the user, and no other; who has none is refused alike."""
    users = {mechanism: scram(mechanism)}
    assert log_in(basic(f"a,=lice:{PASSWORD}"), users, 0).principal.name == "a,=lice"
    for wrong in (f"a,=lice:{PASSWORD}x", f"bob:{PASSWORD}"):
        with pytest.raises(LoginRefused):
            log_in(basic(wrong), users, 0)


def test_passwords_of_each_mechanism_of_a_listener() -> None:
    """PLAIN's user isn't SCRAM's; both log in."""
    users: dict[str, NewExchange] = {
        "PLAIN": partial(PlainExchange, {"bob": b"hush"}),
        "SCRAM-SHA-256": scram("SCRAM-SHA-256"),
    }
    assert log_in(basic("bob:hush"), users, 0).principal.name == "bob"
    assert log_in(basic(f"a,=lice:{PASSWORD}"), users, 0).principal.name == "a,=lice"
    assert schemes(users) == ["Basic"]


def test_tokens() -> None:
    """Bearer takes what OAUTHBEARER takes, and tells when the login ends."""
    rules = TokenRules("", (), "sub", 0)
    users: dict[str, NewExchange] = {"OAUTHBEARER": partial(OauthExchange, unsecured, rules)}
    claims = b64encode(b'{"sub":"carol","iat":1,"exp":100}').decode().rstrip("=")
    head = b64encode(b'{"alg":"none"}').decode().rstrip("=")
    token = f"Bearer {head}.{claims}.".encode()
    identity = log_in(token, users, 50_000)
    assert (identity.principal.name, identity.expires_ms) == ("carol", 100_000)
    for header, now_ms in ((token, 200_000), (b"Bearer x", 0), (basic("carol:x"), 0)):
        with pytest.raises(LoginRefused):
            log_in(header, users, now_ms)
    assert schemes(users) == ["Bearer"]


@pytest.mark.parametrize(
    "header",
    [
        *(b"", b"Basic", b"Basic =", b"Basic " + b64encode(b"\xff:x"), b"Digest a:b"),
        *(basic("bob"), basic(":hush"), basic("bob:"), basic("bob\0:hush"), basic("bob:hush\0")),
        *(b"Bearer x", b"Basic " + b"A" * 100_000),
    ],
)
def test_what_is_no_login(header: bytes) -> None:
    """Each is refused as a wrong password is."""
    with pytest.raises(LoginRefused):
        log_in(header, {"PLAIN": partial(PlainExchange, {"bob": b"hush"})}, 0)
