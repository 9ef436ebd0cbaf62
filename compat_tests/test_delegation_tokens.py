"""Delegation tokens: Kafka's own tool makes them, Java clients log in with them, and all errors.

With ``KWIRE_SECURED=kafka`` the same tests run on Apache Kafka. kafka-python, aiokafka and
librdkafka can't log in with a token: their SCRAM has no extensions.
"""

import re
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.java_tools import run_tool
from compat_tests.raw_client import RawConnection
from compat_tests.secured import SecuredBroker, secured_broker
from kwire.client.secured import scram_messages
from kwire.errors import ErrorCode
from kwire.metadata.acls import AclOperation, PatternType, Permission, ResourceType
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kwire.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing.waiting import wait_until

MODULES = "org.apache.kafka.common.security"
USERS = ("alice", "bob", "eve", "admin")
LINE = f"{MODULES}.plain.PlainLoginModule required " + " ".join(
    f'user_{user}="secret-of-{user}"' for user in USERS
)
DAY_MS = 86_400_000
TOKEN_LOGIN = ",tokenauth=true"
SETTINGS = {
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{LINE};",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{LINE};",
    "delegation.token.secret.key": "the-secret-key",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
ROW = re.compile(r"^(\S+)\s+(\S+==)\s+(User:\S+)\s+(User:\S+)\s+\[(.*?)\]", re.MULTILINE)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with an authorizer and four users, of whom admin may do everything."""
    with secured_broker(tmp_path_factory.mktemp("tokens"), SETTINGS) as (broker, _):
        yield broker


class User:
    """A connection on which a user logs in, to a listener without TLS."""

    def __init__(self, broker: SecuredBroker | str) -> None:
        address = broker if isinstance(broker, str) else broker.bootstrap["SASL_PLAINTEXT"]
        self._connection = RawConnection(address)

    def login(self, name: str) -> "User":
        """Log in with the user's password."""
        self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        message = f"\0{name}\0secret-of-{name}".encode()
        assert self.ask(SaslAuthenticateRequest(auth_bytes=message), 2).error_code == 0
        return self

    def login_by_token(self, token_id: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256") -> Any:
        """The last response of a login by token; None if the broker refuses the first message."""
        self.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        password = b64encode(hmac).decode()
        scram = scram_messages(name, token_id, password, uuid.uuid4().hex, extensions=TOKEN_LOGIN)
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=next(scram)), 2)
        if answer.error_code:
            return answer
        return self.ask(SaslAuthenticateRequest(auth_bytes=scram.send(answer.auth_bytes)), 2)

    def ask(self, request: Any, version: int) -> Any:
        """The answer to a request."""
        return self._connection.ask(request, version)

    def create(self, *renewers: str, kind: str = "User", **fields: Any) -> Any:
        """Ask for a token."""
        named = [CreatableRenewers(principal_type=kind, principal_name=name) for name in renewers]
        return self.ask(CreateDelegationTokenRequest(renewers=named, **fields), 3)

    def renew(self, hmac: bytes, period_ms: int = -1) -> Any:
        """Renew a token."""
        return self.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), 2)

    def expire(self, hmac: bytes, period_ms: int = -1) -> Any:
        """End a token."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        return self.ask(request, 2)

    def described(self, *owners: str) -> set[str]:
        """The ids of the tokens of these owners; of all where none is named."""
        named = [
            DescribeDelegationTokenOwner(principal_type="User", principal_name=name)
            for name in owners
        ]
        answer = self.ask(DescribeDelegationTokenRequest(owners=named or None), 3)
        assert answer.error_code == 0
        return {token.token_id for token in answer.tokens}


def _see(user: User, token_id: str, *owners: str) -> None:
    """Wait until a user sees a token: a Kafka broker follows its controller."""
    wait_until(lambda: token_id in user.described(*owners), what="the token")


def test_kafkas_tool_and_java_clients(broker: SecuredBroker) -> None:
    """Create, describe and renew; produce and consume with the token; end it."""
    ssl = broker.bootstrap["SASL_SSL"]
    own = f'{MODULES}.plain.PlainLoginModule required username="admin" password="secret-of-admin";'
    how = "--bootstrap-server", ssl, "--command-config", broker.tool(own, "PLAIN")
    period = "--max-life-time-period", "-1"
    out = run_tool(TOOL, *how, "--create", *period, "--renewer-principal", "User:bob")
    [(token_id, hmac, owner, requester, renewers)] = ROW.findall(out)
    assert (owner, requester, renewers) == ("User:admin", "User:admin", "User:bob")
    _see(User(broker).login("admin"), token_id)
    topic = f"t-{uuid.uuid4().hex}"
    login = (
        f'{MODULES}.scram.ScramLoginModule required username="{token_id}" password="{hmac}" '
        'tokenauth="true";'
    )
    config = broker.tool(login, "SCRAM-SHA-256")
    given = "--bootstrap-server", ssl, "--topic", topic
    run_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *(*given, "--command-config", config),
        stdin="first\nsecond\n",
    )
    out = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*given, "--command-config", config, "--from-beginning", "--max-messages", "2"),
    )
    assert out.splitlines() == ["first", "second"]
    renewed = run_tool(TOOL, *how, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation" in renewed
    assert token_id in run_tool(TOOL, *how, "--describe", "--owner-principal", "User:admin")
    refused = broker.tool(login, "SCRAM-SHA-256")
    told = run_tool(
        *(TOOL, "--bootstrap-server", ssl, "--command-config", refused, "--describe"), fails=True
    )
    assert "DelegationTokenAuthorizationException" in told or "not allowed" in told
    ended = run_tool(TOOL, *how, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in ended
    assert User(broker).login("admin").renew(b64decode(hmac)).error_code == (
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_session_ends_with_the_token(broker: SecuredBroker, mechanism: str) -> None:
    """The client is told so at its login, and logs in again in time."""
    alice = User(broker).login("alice")
    token = alice.create(max_lifetime_ms=30_000)
    assert token.error_code == 0
    assert token.max_timestamp_ms == token.expiry_timestamp_ms == token.issue_timestamp_ms + 30_000
    _see(alice, token.token_id)
    answer = User(broker).login_by_token(token.token_id, token.hmac, mechanism)
    assert (answer.error_code, 0 < answer.session_lifetime_ms <= 30_000) == (0, True)


def test_logins_that_are_refused(broker: SecuredBroker) -> None:
    """With a wrong HMAC, with an unknown id, and with a token that was ended."""
    alice = User(broker).login("alice")
    token = alice.create()
    _see(alice, token.token_id)
    failed = ErrorCode.SASL_AUTHENTICATION_FAILED
    assert User(broker).login_by_token(token.token_id, b"guess").error_code == failed
    assert User(broker).login_by_token("nobody", token.hmac).error_code == failed
    assert User(broker).login_by_token("alice", b"secret-of-alice").error_code == failed
    assert alice.expire(token.hmac).error_code == 0
    wait_until(lambda: token.token_id not in alice.described(), what="the end of the token")
    assert User(broker).login_by_token(token.token_id, token.hmac).error_code == failed


def test_a_token_makes_no_tokens(broker: SecuredBroker) -> None:
    """Whoever has logged in by one, or on a PLAINTEXT listener, may not ask."""
    alice = User(broker).login("alice")
    token = alice.create()
    _see(alice, token.token_id)
    job = User(broker)
    assert job.login_by_token(token.token_id, token.hmac).error_code == 0
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    created = job.create()
    assert (created.error_code, created.issue_timestamp_ms, created.token_id) == (
        *(not_allowed, -1),
        "",
    )
    renewed, expired = job.renew(token.hmac), job.expire(token.hmac)
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (not_allowed, -1)
    assert (expired.error_code, expired.expiry_timestamp_ms) == (not_allowed, -1)
    described = job.ask(DescribeDelegationTokenRequest(owners=None), 3)
    assert (described.error_code, described.tokens) == (not_allowed, [])


def test_owners_and_renewers(broker: SecuredBroker) -> None:
    """Others can't renew or end a token, whatever they know of it."""
    alice, bob, eve = (User(broker).login(name) for name in ("alice", "bob", "eve"))
    token = alice.create("bob")
    _see(alice, token.token_id)
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert token.expiry_timestamp_ms == token.issue_timestamp_ms + DAY_MS
    assert eve.renew(token.hmac).error_code == mismatch
    assert eve.expire(token.hmac).error_code == mismatch
    assert bob.renew(b"guess").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert bob.expire(b"guess").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    sooner = bob.renew(token.hmac, 60_000)
    assert sooner.error_code == 0
    assert token.issue_timestamp_ms < sooner.expiry_timestamp_ms < token.expiry_timestamp_ms
    assert alice.expire(token.hmac, 1).error_code == 0
    expired = ErrorCode.DELEGATION_TOKEN_EXPIRED
    wait_until(
        lambda: alice.renew(token.hmac, 1).error_code == expired, what="the end of the token"
    )
    assert alice.expire(token.hmac, 1000).error_code == expired
    assert alice.expire(token.hmac).error_code == 0


def test_tokens_of_others(broker: SecuredBroker) -> None:
    """CREATE_TOKENS and DESCRIBE_TOKENS on the owner (KIP-373); renewers are users."""
    alice, eve, admin = (User(broker).login(name) for name in ("alice", "eve", "admin"))
    bobs = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    refused = alice.create(**bobs)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.issue_timestamp_ms, refused.principal_name) == (-1, "bob")
    wrong = alice.create("team", kind="Group")
    assert wrong.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    of_bob = admin.create(**bobs)
    assert (of_bob.error_code, of_bob.token_requester_principal_name) == (0, "admin")
    _see(admin, of_bob.token_id, "bob")
    assert of_bob.token_id not in alice.described()
    rights = [
        AclCreation(
            resource_type=ResourceType.USER,
            resource_name="User:bob",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        for operation in (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS)
    ]
    assert {
        one.error_code for one in admin.ask(CreateAclsRequest(creations=rights), 3).results
    } == {0}
    _see(alice, of_bob.token_id, "bob")
    assert alice.create(**bobs).error_code == 0
    assert of_bob.token_id not in eve.described()
    assert eve.described("bob") == set()
