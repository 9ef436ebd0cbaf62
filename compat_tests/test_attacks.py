"""Attacks on listeners with TLS and logins, by clients that no library would be.

With ``KWIRE_SECURED=kafka`` the same tests run on Apache Kafka, so kwire refuses what Kafka
refuses. docs/SECURITY.md lists all attacks, also those that need a look into the broker.
"""

import json
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import jwt
import pytest
from kafka.net.sasl.scram import ScramClient

from compat_tests.bearer_tokens import AUDIENCE, ISSUER, LIFE_S
from compat_tests.login_wire import TIMEOUT_S, Wire, connect
from compat_tests.secured import PASSWORD, USER, SecuredBroker, create_users, secured_broker
from kwire.errors import ErrorCode
from kwire.protocol.frame import encode_request
from kwire.protocol.messages import MODULES, OWN_MODULES, message_classes
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.types import Request
from tests.support.certificates import Authority, Certified
from tests.support.openssl import Hostile, Missing

LIMIT_BYTES = 524_288
"""sasl.server.max.receive.size, when nobody sets it."""
OF_LOGINS = {17, 18, 36}
"""SaslHandshake, ApiVersions and SaslAuthenticate."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with listeners of each kind, where alice has a password for each mechanism."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as (broker, plain):
        create_users(plain)
        yield broker


def others() -> list[int]:
    """The keys of all APIs that are no part of a login, kwire's own ones too."""
    return sorted((MODULES.keys() | OWN_MODULES.keys()) - OF_LOGINS)


def newest(request: Request) -> int:
    """The last version of an API."""
    assert request.VERSIONS is not None
    return request.VERSIONS[1]


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_no_api_is_served_before_a_login(secured: SecuredBroker, protocol: str) -> None:
    """Each is asked on a connection of its own, which ends without an answer."""
    answered = []
    for key in others():
        request = message_classes(key)[0]()
        with Wire(secured, protocol) as wire:
            wire.send((request, newest(request)))
            if wire.frame():
                answered.append(key)
    assert not answered


def test_api_versions_is_served_before_a_login(secured: SecuredBroker) -> None:
    """And only there: in the middle of a login it ends the connection."""
    with Wire(secured, "SASL_SSL") as wire:
        wire.send((ApiVersionsRequest(), 0))
        assert wire.frame()
        wire.begin("PLAIN")
        wire.send((ApiVersionsRequest(), 0), (MetadataRequest(topics=[]), 12))
        assert wire.sent not in wire.answered()


@pytest.mark.parametrize("key", [0, 1, 3, 10, 19, 22])
def test_no_api_is_served_in_the_middle_of_a_login(secured: SecuredBroker, key: int) -> None:
    """Neither after the first message nor in place of the second one."""
    request = message_classes(key)[0]()
    for mechanism, first in (("PLAIN", b""), ("SCRAM-SHA-256", b"n,,n=alice,r=abc")):
        with Wire(secured, "SASL_PLAINTEXT") as wire:
            wire.begin(mechanism)
            if first:
                answer = wire.authenticate(first)
                assert answer is not None
                assert not answer.error_code
            wire.send((request, newest(request)), (MetadataRequest(topics=[]), 12))
            assert wire.sent not in wire.answered()


def test_a_login_that_fails_opens_nothing_that_was_sent_ahead(secured: SecuredBroker) -> None:
    """Its two answers come, and no third one."""
    with Wire(secured, "SASL_PLAINTEXT") as wire:
        wire.send(
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2),
            (MetadataRequest(topics=[]), 12),
        )
        assert wire.answered() == [1, 2]


@pytest.mark.parametrize("size", [LIMIT_BYTES + 1, 1 << 30, (1 << 31) - 1, -1 & 0xFFFFFFFF])
def test_a_huge_frame_of_a_login(secured: SecuredBroker, size: int) -> None:
    """Its head is enough to end the connection."""
    for is_begun in (False, True):
        with Wire(secured, "SASL_SSL") as wire:
            if is_begun:
                wire.begin("PLAIN")
            wire.send_bytes(size.to_bytes(4))
            assert not wire.frame()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_overheard_login_cannot_be_replayed(secured: SecuredBroker, mechanism: str) -> None:
    """The same messages again meet another nonce of the broker."""
    client = ScramClient(USER, PASSWORD, mechanism)
    messages = [client.first_message()]
    with Wire(secured, "SASL_PLAINTEXT") as wire:
        wire.begin(mechanism)
        first = wire.authenticate(messages[0])
        assert first is not None
        client.process_server_first_message(bytes(first.auth_bytes))
        messages.append(client.final_message())
        last = wire.authenticate(messages[1])
        assert last is not None
        assert not last.error_code
    with Wire(secured, "SASL_PLAINTEXT") as wire:
        wire.begin(mechanism)
        again = wire.authenticate(messages[0])
        assert again is not None
        assert again.auth_bytes != first.auth_bytes
        refused = wire.authenticate(messages[1])
        assert refused is not None
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert not wire.frame()


def test_a_mechanism_that_is_not_enabled(secured: SecuredBroker) -> None:
    """It can't be chosen, and nothing follows."""
    with Wire(secured, "SASL_SSL") as wire:
        wire.begin("GSSAPI")
        answer = wire.authenticate(b"token")
        assert answer is None or answer.error_code


def _unsigned(**claims: object) -> str:
    return jwt.encode(_claims(**claims), None, "none", headers={"kid": "k"})


def _claims(**claims: object) -> dict[str, object]:
    now_s = int(time.time())
    usual = {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + LIFE_S}
    return {**usual, **claims}


def _token(secured: SecuredBroker, kind: str) -> str:
    over_s = int(time.time()) - LIFE_S
    if kind == "alg none":
        return _unsigned()
    if kind == "signed with the public key":
        keys = Path(secured.issuer.keys_url.removeprefix("file://")).read_text()
        secret = json.loads(keys)["keys"][0]["n"]
        return jwt.encode(_claims(), secret, "HS256", headers={"kid": "k"})
    if kind == "altered":
        head, _, signature = secured.issuer.token().split(".")
        return ".".join([head, _unsigned(sub="admin").split(".")[1], signature])
    claims = {
        "right": {},
        "for somebody else": {"aud": "other"},
        "of another issuer": {"iss": "https://other.test"},
        "over": {"iat": over_s - 60, "exp": over_s},
    }[kind]
    return secured.issuer.token(**claims)


@pytest.mark.parametrize(
    "kind",
    [
        *("right", "alg none", "signed with the public key", "altered"),
        *("for somebody else", "of another issuer", "over"),
    ],
)
def test_tokens(secured: SecuredBroker, kind: str) -> None:
    """Only a token that the issuer has signed, for this broker and for now, logs in."""
    message = f"n,,\x01auth=Bearer {_token(secured, kind)}\x01\x01".encode()
    with Wire(secured, "SASL_SSL") as wire:
        wire.begin("OAUTHBEARER")
        answer = wire.authenticate(message)
        if answer is not None and not answer.error_code and answer.auth_bytes:
            answer = wire.authenticate(b"\x01")  # the refusal has been told, RFC 7628
        is_refused = answer is None or answer.error_code != 0
        assert is_refused == (kind != "right")


def _context(secured: SecuredBroker) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(secured.ca_file))


def test_an_older_version_of_tls(secured: SecuredBroker) -> None:
    """TLS 1.1 isn't spoken, even by a client that would take any cipher suite."""
    context = _context(secured)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    _is_refused(secured, context)


def test_cipher_suites_without_authentication_or_encryption(secured: SecuredBroker) -> None:
    """They aren't spoken."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:eNULL:@SECLEVEL=0")
    _is_refused(secured, context)


def _is_refused(secured: SecuredBroker, context: ssl.SSLContext) -> None:
    with (
        connect(secured, "SASL_SSL") as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


def _certificates(secured: SecuredBroker) -> dict[str, Certified]:
    return {
        "good": secured.authority.sign(USER),
        "ended": secured.authority.sign(USER, days=-1),
        "self-signed": Authority(USER),
        "of another CA": Authority("another CA").sign(USER),
    }


@pytest.mark.parametrize("kind", ["good", "ended", "self-signed", "of another CA"])
def test_certificates_of_clients(secured: SecuredBroker, kind: str, tmp_path: Path) -> None:
    """Only one that the broker's CA has signed, and that hasn't ended, is let in."""
    context = _context(secured)
    context.load_cert_chain(_certificates(secured)[kind].write_pem(tmp_path / "client.pem"))
    answer = b""
    with (
        suppress(ssl.SSLError, ConnectionError),
        connect(secured, "SSL") as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        tls.sendall(bytes(encode_request(ApiVersionsRequest(), 0, 1, "hostile")))
        answer = tls.recv(4)
    assert bool(answer) == (kind == "good")


def test_renegotiation(secured: SecuredBroker) -> None:
    """A second handshake inside of TLS 1.2 is refused."""
    context = _context(secured)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        connect(secured, "SASL_SSL") as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        tls.settimeout(None)
        try:
            Hostile(tls).ask_for_another_handshake()
        except Missing as missing:
            pytest.skip(str(missing))
        tls.settimeout(TIMEOUT_S)
        answer = b""
        with suppress(ssl.SSLError, ConnectionError):
            answer = tls.recv(1)
        assert not answer


def _halves(data: bytes) -> Sequence[bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]


def test_what_is_no_tls(secured: SecuredBroker) -> None:
    """Neither HTTP nor a request without TLS gets an answer that is one."""
    for data in (
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(encode_request(ApiVersionsRequest(), 0, 1, "hostile")),
    ):
        with connect(secured, "SASL_SSL") as plain:
            for half in _halves(data):
                plain.sendall(half)
            with suppress(ConnectionError):
                answer = plain.recv(1000)
                assert answer[:1] in (b"", b"\x15")  # an alert of TLS at most
