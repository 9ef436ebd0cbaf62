"""OAUTHBEARER: tokens that are signed, and all that doesn't count as one."""

import json
import ssl
import threading
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.metadata.image import MetadataImage
from kwire.security.jwks import Jwks, KeysUnreadable, read_keys
from kwire.security.listeners import ListenerSecurity
from kwire.security.login import Login
from kwire.security.oauth import MOST_TOKEN_CHARACTERS, OauthExchange, TokenRules, signed, unsecured
from kwire.security.principal import Principal
from kwire.security.sasl import Identity, LoginRefused
from tests.support.certificates import Authority

NOW_S = 1_800_000_000
RSA, EC, OTHER = (
    rsa.generate_private_key(65537, 2048),
    ec.generate_private_key(ec.SECP256R1()),
    rsa.generate_private_key(65537, 2048),
)
RULES = TokenRules("https://issuer", ["kafka", "kwire"])
CLAIMS = {"sub": "alice", "iss": "https://issuer", "aud": "kafka", "exp": NOW_S + 60}


def jwks_text(*keys):
    algorithms = {"r": jwt.algorithms.RSAAlgorithm, "e": jwt.algorithms.ECAlgorithm}
    found = []
    for key_id, key in keys:
        public = json.loads(algorithms[key_id[0]].to_jwk(key.public_key()))
        found.append({**public, "kid": key_id})
    return json.dumps({"keys": found})


@pytest.fixture
def keys(tmp_path):
    """A file with two public keys."""
    path = tmp_path / "jwks.json"
    path.write_text(jwks_text(("r1", RSA), ("e1", EC)))
    return path


def _token(claims, key=RSA, algorithm="RS256", key_id="r1"):
    return jwt.encode(claims, key, algorithm, headers={"kid": key_id})


def _message(token, authorization_id=""):
    header = f"n,a={authorization_id}," if authorization_id else "n,,"
    return f"{header}\x01auth=Bearer {token}\x01\x01".encode()


def _refused(exchange, message):
    assert exchange.step(message, NOW_S * 1000) == b'{"status":"invalid_token"}'
    assert exchange.identity is None
    with pytest.raises(LoginRefused) as caught:
        exchange.step(b"\x01", NOW_S * 1000)
    assert caught.value.told == "Authentication failed: the token is not valid"
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "algorithm", "key_id"), [(RSA, "RS256", "r1"), (EC, "ES256", "e1")]
)
def test_a_signed_token_logs_in_until_its_end(keys, key, algorithm, key_id):
    """By RSA and by elliptic curves."""
    exchange = OauthExchange(signed(Jwks(keys.as_uri(), 60).key), RULES)
    assert (
        exchange.step(_message(_token(CLAIMS, key, algorithm, key_id), "alice"), NOW_S * 1000)
        == b""
    )
    assert exchange.identity == Identity(Principal("User", "alice"), (NOW_S + 60) * 1000)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": None}, "has no end"),
        ({"exp": "soon"}, "a time is no number"),
        ({"exp": 1e300}, "a time is no number"),
        ({"exp": True}, "a time is no number"),
        ({"nbf": NOW_S + 31}, "isn't valid yet"),
        ({"iat": NOW_S + 31}, "isn't valid yet"),
        ({"iss": "https://other"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": ["x", "y"]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": ""}, "no claim sub"),
    ],
)
def test_claims_that_are_refused(keys, claims, reason):
    """Though the signature is right; the clocks may differ by 30 s."""
    exchange = OauthExchange(signed(Jwks(keys.as_uri(), 60).key), RULES)
    wanted = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    assert reason in _refused(exchange, _message(_token(wanted)))


def _unsigned(claims):
    parts = ({"alg": "none"}, claims)
    texts = (urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join((*texts, ""))


def test_signatures_that_are_refused(keys):
    """None, one by another key, by an unknown key, by a public key as a shared secret, altered."""
    verify = signed(Jwks(keys.as_uri(), 60).key)
    good = _token(CLAIMS)
    head, body, signature = good.split(".")
    secret = jwt.encode(CLAIMS, b"public key" * 5, "HS256", headers={"kid": "r1"})
    for token, reason in (
        (_unsigned(CLAIMS), "algorithm 'none' isn't taken"),
        (secret, "algorithm 'HS256' isn't taken"),
        (_token(CLAIMS, OTHER), "Signature verification failed"),
        (_token(CLAIMS, OTHER, key_id="r9"), "a key that isn't known"),
        (_token(CLAIMS, EC, "ES256", "r1"), "not valid"),
        (f"{head}.{body[:-4]}AAAA.{signature}", "not valid"),
        ("nonsense", "not valid"),
    ):
        assert reason in _refused(OauthExchange(verify, RULES), _message(token))


@pytest.mark.parametrize(
    "message",
    [
        *(b"", b"n,,\x01auth=Bearer x", b"n,,\x01auth=Basic x\x01\x01"),
        *(b"y,,\x01auth=Bearer x\x01\x01", b"n,,\x01" + b"a\x01" * 200 + b"auth=Bearer x\x01\x01"),
    ],
)
def test_messages_that_are_malformed(message):
    """No token, another scheme, channel binding, more pairs or bytes than are read."""
    _refused(OauthExchange(unsecured, RULES), message)


def test_a_long_message_is_refused_unread():
    """Half a megabyte of separators would take 40 ms of everybody's time."""
    exchange = OauthExchange(unsecured, RULES)
    exchange.step(b"n,,\x01" + bytes([1]) * 500_000, NOW_S * 1000)
    with pytest.raises(LoginRefused, match="too long"):
        exchange.step(b"\x01", NOW_S * 1000)


def test_a_token_above_the_limit_is_refused_with_the_limit():
    """PyJWT would look at each of its characters before anybody has logged in."""
    looked_at = []
    exchange = OauthExchange(looked_at.append, RULES)
    longest = _message("a" * MOST_TOKEN_CHARACTERS)
    with pytest.raises(AttributeError):  # from the claims of a token that was looked at
        exchange.step(longest, NOW_S * 1000)
    assert len(looked_at.pop()) == MOST_TOKEN_CHARACTERS == 16_384
    assert exchange.step(_message("a" * 16_385), NOW_S * 1000) == b'{"status":"invalid_token"}'
    with pytest.raises(LoginRefused) as caught:
        exchange.step(b"\x01", NOW_S * 1000)
    assert caught.value.told == "Authentication failed: a token has at most 16384 characters"
    assert "has 16385 characters" in str(caught.value)
    assert looked_at == []


def test_a_subject_that_no_message_can_carry_does_not_log_in():
    """It would be in the metadata, and each answer that names it would fail."""
    login = Login({"OAUTHBEARER": lambda: OauthExchange(unsecured, TokenRules())}, {})
    login.start_exchange("OAUTHBEARER", 0)
    message = _message(_unsigned({"sub": "al\ud800ice", "exp": NOW_S + 1}))
    with pytest.raises(LoginRefused, match="half of a surrogate pair") as caught:
        login.step(message, NOW_S * 1000, 0)
    assert "half of a surrogate pair" in caught.value.told
    assert not login.is_open


def test_another_authorization_id_is_refused():
    """Nobody acts for others."""
    reason = _refused(OauthExchange(unsecured, RULES), _message(_unsigned(CLAIMS), "bob"))
    assert "another authorization id" in reason


def test_unsecured_tokens_where_they_are_asked_for():
    """They have to say themselves that nobody signed them."""
    exchange = OauthExchange(unsecured, TokenRules())
    assert exchange.step(_message(_unsigned({"sub": "a", "exp": NOW_S + 1})), NOW_S * 1000) == b""
    assert "takes unsecured" in _refused(OauthExchange(unsecured, RULES), _message(_token(CLAIMS)))


def test_keys_are_read_again(keys):
    """After their time, and for an unknown key; what can't be read changes nothing."""
    now_s = 0
    known = Jwks(keys.as_uri(), 60, steady_ms=lambda: now_s * 1000)
    assert known.key("r1") is not None
    keys.write_text(jwks_text(("r2", OTHER)))
    assert known.key("r2") is None
    now_s = 11
    assert known.key("r2") is None
    known.wait_read()
    assert known.key("r2") is not None
    assert known.key(None) is not None
    keys.write_text("nonsense")
    now_s = 72
    known.key("r2")
    known.wait_read()
    assert known.key("r2") is not None


@pytest.mark.parametrize("url", ["file:///no/such", "ftp://x/y", "jwks.json"])
def test_keys_that_cannot_be_read(url):
    """One line, at the start."""
    with pytest.raises(KeysUnreadable):
        read_keys(url)


class _Issuer(BaseHTTPRequestHandler):
    """Answers with its server's ``text``, or leads to its ``elsewhere``; otherwise not in HTTP."""

    def do_GET(self):
        server = self.server
        if not server.text and not server.elsewhere:
            self.wfile.write(b"nonsense\r\n")
            return
        self.send_response(302 if server.elsewhere else 200)
        if server.elsewhere:
            self.send_header("Location", server.elsewhere)
        self.end_headers()
        self.wfile.write(server.text)

    def log_message(self, *_):
        """Nothing."""


POLL_S = 0.01
"""How long a server takes to see that it has to end."""


@contextmanager
def _issuer(text=b"", elsewhere="", certificate=None):
    """The URL of a server on this machine, with TLS if it has a certificate."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Issuer) as server:
        server.text, server.elsewhere = text, elsewhere
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(POLL_S,))
        thread.start()
        try:
            scheme = "http" if certificate is None else "https"
            yield f"{scheme}://127.0.0.1:{server.server_port}/keys"
        finally:
            server.shutdown()
            thread.join()


def test_keys_by_http_are_refused(keys):
    """Whoever is on the way could put other keys in; nothing is asked for."""
    with _issuer(keys.read_bytes()) as url, pytest.raises(KeysUnreadable, match="https: or file:"):
        read_keys(url)


def test_keys_by_https(keys, tmp_path, monkeypatch):
    """From a server whose CA is known, and from no other; a way to plain HTTP isn't followed."""
    authority = Authority()
    known = tmp_path / "ca.pem"
    known.write_text(authority.certificate_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(known))
    good = authority.sign("issuer").write_pem(tmp_path / "good.pem")
    foreign = Authority().sign("issuer").write_pem(tmp_path / "foreign.pem")
    with _issuer(keys.read_bytes(), certificate=good) as url:
        assert read_keys(url).keys() == {"r1", "e1"}
        with _issuer(elsewhere=url, certificate=good) as first:
            assert read_keys(first).keys() == {"r1", "e1"}
    with (
        _issuer(certificate=good) as url,
        pytest.raises(KeysUnreadable, match="nonsense"),
    ):
        read_keys(url)
    with (
        _issuer(keys.read_bytes(), certificate=foreign) as url,
        pytest.raises(KeysUnreadable, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        read_keys(url)
    with (
        _issuer(keys.read_bytes()) as plain,
        _issuer(elsewhere=plain, certificate=good) as url,
        pytest.raises(KeysUnreadable, match="doesn't begin with https:"),
    ):
        read_keys(url)


def test_a_listener_needs_keys_or_says_that_it_takes_any_token(keys, caplog):
    """Kafka takes unsecured tokens by default; kwire doesn't."""
    given = {"listeners": "SASL_PLAINTEXT://:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}

    def listener(extra):
        return ListenerSecurity(
            "SASL_PLAINTEXT", BrokerConfig.load({**given, **extra}), MetadataImage
        )

    with pytest.raises(ConfigError, match="must name the public keys"):
        listener({})
    with pytest.raises(ConfigError, match="no keys can be read"):
        listener({"sasl.oauthbearer.jwks.endpoint.url": "file:///no/such"})
    signed = {
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": "https://login.example",
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    assert listener(signed).login() is not None
    for claim in ("issuer", "audience"):
        expected = f"sasl.oauthbearer.expected.{claim}"
        others = {name: value for name, value in signed.items() if name != expected}
        with pytest.raises(ConfigError, match=rf"{expected}: must be set"):
            listener(others)
        waived = {f"sasl.oauthbearer.allow.unverified.{claim}": "true"}
        assert listener({**others, **waived}).login() is not None
    name = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
    unsafe = (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
        "OAuthBearerUnsecuredValidatorCallbackHandler"
    )
    assert listener({name: unsafe}).login() is not None
    with_keys_of_others = {"sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(), name: unsafe}
    assert listener(with_keys_of_others).login() is not None
    assert "accepts tokens that nobody signed" in caplog.text
