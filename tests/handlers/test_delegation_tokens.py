"""Delegation tokens over connections: who may ask for them, and logins with them (KIP-48)."""

import logging
from base64 import b64encode

import pytest

from kwire.client.secured import scram_messages
from kwire.errors import ErrorCode
from kwire.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.security.principal import Principal
from tests.support.clock import FakeClock
from tests.support.in_process import running_server

DAY_MS = 86_400_000
TOKEN_LOGIN = ",tokenauth=true"
SETTINGS = {
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.login.plain.sasl.jaas.config": "x.PlainLoginModule required "
    'user_alice="hush" user_bob="hush" user_eve="hush" user_admin="hush";',
    "connection.failed.authentication.delay.ms": "0",
    "delegation.token.secret.key": "the-secret-key",
}
WITH_ACLS = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


async def _authenticate(client, message):
    request = SaslAuthenticateRequest(auth_bytes=message)
    return await client.request(request, 2, SaslAuthenticateResponse)


async def _login(server, user):
    client = await server.connect()
    await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    assert (await _authenticate(client, f"\0{user}\0hush".encode())).error_code == 0
    return client


async def _login_by_token(server, token_id, hmac, mechanism="SCRAM-SHA-256", client=None):
    """A connection, and the last response of its login."""
    client = client or await server.connect()
    await client.request(SaslHandshakeRequest(mechanism=mechanism), 1, SaslHandshakeResponse)
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    scram = scram_messages(
        name, token_id, b64encode(hmac).decode(), "nonce", extensions=TOKEN_LOGIN
    )
    challenge = await _authenticate(client, next(scram))
    return client, await _authenticate(client, scram.send(challenge.auth_bytes))


async def _create(client, *renewers, version=3, **fields):
    named = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    request = CreateDelegationTokenRequest(renewers=named, **fields)
    return await client.request(request, version, CreateDelegationTokenResponse)


async def _renew(client, hmac, period_ms=-1):
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return await client.request(request, 2, RenewDelegationTokenResponse)


async def _expire(client, hmac, period_ms=-1):
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return await client.request(request, 2, ExpireDelegationTokenResponse)


async def _described(client, owners=None):
    """The error, and the ids of the tokens."""
    named = owners and [
        DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners
    ]
    request = DescribeDelegationTokenRequest(owners=owners if owners in (None, []) else named)
    answer = await client.request(request, 3, DescribeDelegationTokenResponse)
    return answer.error_code, [token.token_id for token in answer.tokens]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_job_logs_in_with_a_token_of_its_user(tmp_path, mechanism, caplog):
    """It is the user then, until the token expires; no secret is in the log."""
    caplog.set_level(logging.DEBUG)
    async with running_server(tmp_path, SETTINGS) as server:
        alice = await _login(server, "alice")
        token = await _create(alice, max_lifetime_ms=5000)
        assert token.error_code == 0
        assert token.max_timestamp_ms == token.expiry_timestamp_ms
        assert token.max_timestamp_ms == token.issue_timestamp_ms + 5000
        client, answer = await _login_by_token(server, token.token_id, token.hmac, mechanism)
        assert (answer.error_code, answer.session_lifetime_ms > 0) == (0, True)
        assert answer.session_lifetime_ms <= 5000
        await client.request(MetadataRequest(), 1, MetadataResponse)
        principals = [one.info.principal for one in server.server.poller.connections]
        assert principals == [Principal("User", "alice")] * 2
        await alice.aclose()
        await client.aclose()
    assert b64encode(token.hmac).decode() not in caplog.text
    assert token.hmac.hex() not in caplog.text
    assert "the-secret-key" not in caplog.text


async def test_a_wrong_hmac_an_unknown_id_and_an_expired_token_look_alike(tmp_path):
    """All get a salt, and are refused with the last message."""
    clock = FakeClock()
    async with running_server(tmp_path, SETTINGS, clock=clock) as server:
        alice = await _login(server, "alice")
        token = await _create(alice)
        answers = [
            await _login_by_token(server, token.token_id, b"guess"),
            await _login_by_token(server, "nobody", token.hmac),
        ]
        await _expire(alice, token.hmac, 0)
        clock.pass_time(10)
        answers.append(await _login_by_token(server, token.token_id, token.hmac))
        for client, answer in answers:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.is_closed()
        assert len({answer.error_message for _, answer in answers}) == 1
        await alice.aclose()


async def test_who_logs_in_by_token_asks_for_no_tokens(tmp_path):
    """A token would make others that outlive it."""
    async with running_server(tmp_path, SETTINGS) as server:
        alice = await _login(server, "alice")
        token = await _create(alice)
        client, _ = await _login_by_token(server, token.token_id, token.hmac)
        created = await _create(client)
        not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (created.error_code, created.issue_timestamp_ms, created.hmac) == (
            not_allowed,
            -1,
            b"",
        )
        renewed = await _renew(client, token.hmac)
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (not_allowed, -1)
        assert (await _expire(client, token.hmac)).error_code == not_allowed
        assert await _described(client) == (not_allowed, [])
        assert await _described(alice) == (0, [token.token_id])
        await alice.aclose()
        await client.aclose()


async def test_nobody_without_a_login_has_tokens(tmp_path):
    """On a PLAINTEXT listener everybody is ANONYMOUS."""
    async with running_server(
        tmp_path, {"delegation.token.secret.key": "the-secret-key"}
    ) as server:
        client = await server.connect()
        for answer in (await _create(client), await _renew(client, b"x")):
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        await client.aclose()


async def test_without_a_secret_key_there_are_no_tokens(tmp_path):
    """DELEGATION_TOKEN_AUTH_DISABLED, and no login by token."""
    settings = {**SETTINGS, "delegation.token.secret.key": ""}
    async with running_server(tmp_path, settings) as server:
        alice = await _login(server, "alice")
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        created = await _create(alice)
        assert (created.error_code, created.principal_name) == (disabled, "alice")
        assert created.issue_timestamp_ms == 0
        assert (await _renew(alice, b"x")).error_code == disabled
        assert (await _expire(alice, b"x")).error_code == disabled
        assert await _described(alice) == (disabled, [])
        _, answer = await _login_by_token(server, "alice", b"hush")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await alice.aclose()


async def test_owners_and_renewers_renew_and_end_a_token(tmp_path):
    """Others can't, whatever they know of it."""
    clock = FakeClock()
    async with running_server(tmp_path, SETTINGS, clock=clock) as server:
        alice, bob, eve = [await _login(server, user) for user in ("alice", "bob", "eve")]
        token = await _create(alice, "bob")
        mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert token.expiry_timestamp_ms == token.issue_timestamp_ms + DAY_MS
        assert (await _renew(eve, token.hmac)).error_code == mismatch
        assert (await _expire(eve, token.hmac)).error_code == mismatch
        assert (await _renew(bob, b"guess")).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        sooner = await _renew(bob, token.hmac, 60_000)
        assert sooner.error_code == 0
        assert token.issue_timestamp_ms < sooner.expiry_timestamp_ms < token.expiry_timestamp_ms
        assert (await _expire(bob, token.hmac, 0)).error_code == 0
        clock.pass_time(10)
        assert (await _renew(alice, token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert (await _expire(alice, token.hmac)).error_code == 0
        assert (await _expire(alice, token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        for client in (alice, bob, eve):
            await client.aclose()


async def test_a_token_for_somebody_else_needs_create_tokens(tmp_path):
    """Also with a type and a name that only look like the requester's own (KIP-373)."""
    async with running_server(tmp_path, WITH_ACLS) as server:
        alice, admin = await _login(server, "alice"), await _login(server, "admin")
        owner = {"owner_principal_type": "User", "owner_principal_name": "bob"}
        failed = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (await _create(alice, **owner)).error_code == failed
        tricky = {"owner_principal_type": "", "owner_principal_name": "User:alice"}
        assert (await _create(alice, **tricky)).error_code == failed
        created = await _create(admin, **owner)
        assert (created.error_code, created.principal_name) == (0, "bob")
        assert created.token_requester_principal_name == "admin"
        every = DescribeDelegationTokenRequest(owners=None)
        [told] = (await admin.request(every, 3, DescribeDelegationTokenResponse)).tokens
        assert (told.principal_type, told.principal_name) == ("User", "bob")
        requester = told.token_requester_principal_type, told.token_requester_principal_name
        assert requester == ("User", "admin")
        client, _ = await _login_by_token(server, created.token_id, created.hmac)
        assert Principal("User", "bob") in [
            one.info.principal for one in server.server.poller.connections
        ]
        wrong = await _create(admin, owner_principal_type="Group", owner_principal_name="bob")
        assert wrong.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        for one in (alice, admin, client):
            await one.aclose()


async def test_who_sees_which_tokens(tmp_path):
    """Owners, requesters and renewers; others need a right, as the super user has."""
    async with running_server(tmp_path, WITH_ACLS) as server:
        users = ("alice", "bob", "eve", "admin")
        alice, bob, eve, admin = [await _login(server, user) for user in users]
        first = (await _create(alice, "bob")).token_id
        second = (await _create(eve)).token_id
        assert await _described(alice) == (0, [first])
        assert await _described(bob) == (0, [first])
        assert await _described(bob, ["eve"]) == (0, [])
        assert await _described(admin) == (0, [first, second])
        assert await _described(admin, ["bob"]) == (0, [first])
        assert await _described(admin, []) == (0, [])
        for one in (alice, bob, eve, admin):
            await one.aclose()


@pytest.mark.parametrize("version", [1, 2])
async def test_old_versions_do_not_know_who_has_asked(tmp_path, version):
    """Who has asked for a token sees it all the same."""
    async with running_server(tmp_path, WITH_ACLS) as server:
        admin = await _login(server, "admin")
        token = await _create(admin, version=version)
        assert (token.error_code, token.token_requester_principal_name) == (0, "")
        request = DescribeDelegationTokenRequest(owners=None)
        answer = await admin.request(request, version, DescribeDelegationTokenResponse)
        assert [one.token_id for one in answer.tokens] == [token.token_id]
        await admin.aclose()


async def test_expired_tokens_are_removed_and_others_outlive_a_restart(tmp_path, mock_clock):
    """Every ``delegation.token.expiry.check.interval.ms``; a new secret key ends all of them."""
    settings = {**SETTINGS, "delegation.token.expiry.check.interval.ms": "60000"}
    clock = FakeClock()
    async with running_server(tmp_path, settings, clock=clock) as server:
        alice = await _login(server, "alice")
        await _create(alice, max_lifetime_ms=5000)
        left = await _create(alice)
        clock.pass_time(61_000)
        mock_clock.jump(61)
        while len(server.server.broker.image.tokens) == 2:
            await _described(alice)
        assert await _described(alice) == (0, [left.token_id])
        await alice.aclose()
    async with running_server(tmp_path, settings) as server:
        client, answer = await _login_by_token(server, left.token_id, left.hmac)
        assert answer.error_code == 0
        await client.aclose()
    changed = {**settings, "delegation.token.secret.key": "another-key"}
    async with running_server(tmp_path, changed) as server:
        _, answer = await _login_by_token(server, left.token_id, left.hmac)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_session_ends_with_its_token(tmp_path, mock_clock):
    """A client that logs in again after a renewal has a longer session; then only logins count."""
    clock = FakeClock()
    async with running_server(tmp_path, SETTINGS, clock=clock) as server:
        alice = await _login(server, "alice")
        token = await _create(alice, max_lifetime_ms=60_000)
        assert (await _expire(alice, token.hmac, 5000)).error_code == 0
        client, answer = await _login_by_token(server, token.token_id, token.hmac)
        assert answer.session_lifetime_ms == 5000
        assert (await _renew(alice, token.hmac)).expiry_timestamp_ms == token.max_timestamp_ms
        clock.pass_time(4000)
        mock_clock.jump(4)
        _, answer = await _login_by_token(server, token.token_id, token.hmac, client=client)
        assert answer.session_lifetime_ms == 56_000
        clock.pass_time(57_000)
        mock_clock.jump(57)
        await client.send(MetadataRequest(), 1)
        assert await client.is_closed()
        await alice.aclose()
