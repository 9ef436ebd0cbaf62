"""Connections to brokers with TLS and a login, against kwire's own listeners."""

from functools import partial
from random import Random

import pytest
import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.client.errors import CannotConnect
from kwire.client.peer import Peer
from kwire.client.secured import Credentials, open_secured, scram_messages
from kwire.client.settings import ClientSettings
from kwire.config.broker import BrokerConfig
from kwire.config.listener_settings import UNSECURED_VALIDATOR
from kwire.config.settings import ConfigError
from kwire.metadata.scram import ScramCredentialChanged, credential_of, salted
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.security.among_brokers import opener
from kwire.security.jaas import parse_jaas
from kwire.security.own_logins import token_of
from tests.support.certificates import Authority
from tests.support.in_process import running_server

CA = Authority()
USER = {"listeners": "SASL_SSL://127.0.0.1:0", "ssl.truststore.type": "PEM"}
JAAS = 'x.Module required username="broker" password="hush" user_broker="hush";'


@pytest.fixture
def settings(tmp_path):
    """A listener among brokers; brokers know each other's CA."""
    path = CA.sign("broker").write_pem(tmp_path / "broker.pem")
    return {
        **USER,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path),
        "ssl.truststore.certificates": CA.certificate_pem,
        "ssl.client.auth": "required",
        "connection.failed.authentication.delay.ms": "0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{
            f"listener.name.sasl_ssl.{m}.sasl.jaas.config": JAAS for m in ("plain", "scram-sha-256")
        },
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": JAAS.replace("hush", "guess"),
    }


async def _ask(running, open_stream):
    async with trio.open_nursery() as nursery:
        how = nursery, ClientSettings(client_id="broker-2"), open_stream, Random(1)
        peer = Peer("127.0.0.1", running.port, *how)
        try:
            with trio.fail_after(10):
                return await peer.ask(MetadataRequest(topics=[]), MetadataResponse)
        finally:
            peer.close()
            nursery.cancel_scope.cancel()


def _opener(settings, mechanism):
    given = {**settings, "sasl.mechanism.inter.broker.protocol": mechanism}
    return opener("SASL_SSL", BrokerConfig.load(given))


async def _create_user(running):
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        password = salted(mechanism, b"hush", b"salt", 4096)
        credential = credential_of(mechanism, password, b"salt", 4096)
        change = ScramCredentialChanged(mechanism, "broker", credential)
        await running.broker.commit(lambda _, change=change: [change])


async def test_a_broker_logs_in_at_another(settings, tmp_path):
    """With its certificate and its JAAS line, in each mechanism; a wrong password is an error."""
    async with running_server(tmp_path / "data", settings) as running:
        await _create_user(running)
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            found = await _ask(running, _opener(settings, mechanism))
            assert [broker.node_id for broker in found.brokers] == [1]
        with pytest.raises(ExceptionGroup) as caught:
            await _ask(running, _opener(settings, "SCRAM-SHA-512"))
        error = caught.value.exceptions[0]
        assert isinstance(error, CannotConnect)
        assert "the login failed: Authentication failed" in str(error)


async def test_a_broker_logs_in_with_a_token(settings, tmp_path):
    """From a file that may be replaced; without one nobody starts."""
    token = tmp_path / "token.jwt"
    token.touch(mode=0o600)
    prefix = "listener.name.sasl_ssl.oauthbearer."
    line = 'x.Y required unsecuredLoginStringClaim_sub="broker";'
    given = {
        **settings,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}sasl.server.callback.handler.class": UNSECURED_VALIDATOR,
        f"{prefix}sasl.jaas.config": "x.Y required;",
    }
    with pytest.raises(ConfigError, match="must name a file with a token"):
        _opener(given, "OAUTHBEARER")
    given |= {f"{prefix}sasl.oauthbearer.token.endpoint.url": token.as_uri()}
    token.write_text(token_of("", parse_jaas(line)))
    async with running_server(tmp_path / "data", given) as running:
        found = await _ask(running, _opener(given, "OAUTHBEARER"))
        assert [broker.node_id for broker in found.brokers] == [1]


async def test_a_broker_with_a_certificate_of_nobody_is_not_trusted(settings, tmp_path):
    """Nothing is sent to it."""
    async with running_server(tmp_path / "data", settings) as running:
        other = {**settings, "ssl.truststore.certificates": Authority().certificate_pem}
        with pytest.raises(ExceptionGroup) as caught:
            await _ask(running, _opener(other, "PLAIN"))
        assert "TLS handshake failed" in str(caught.value.exceptions[0])
        credentials = Credentials("OAUTHBEARER", "a", "b")
        with pytest.raises(OSError, match="doesn't take logins with OAUTHBEARER"):
            await _open(running, settings, credentials)


async def _open(running, settings, credentials):
    from kwire.security.tls import client_context

    context = client_context(BrokerConfig.load(settings).of_listener("SASL_SSL"))
    return await open_secured(context, credentials, ThreadPool(1).run)("127.0.0.1", running.port)


def test_what_brokers_need_to_log_in(settings):
    """A mechanism of the listener, and a line with a name and a password."""
    with pytest.raises(ConfigError, match="brokers log in to each other with one of"):
        _opener(settings, "GSSAPI")
    without = {
        **settings,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": "x.Y required user_a=b;",
    }
    with pytest.raises(ConfigError, match="must have the name and password of a login") as caught:
        _opener(without, "PLAIN")
    assert "user_a" not in str(caught.value)


@pytest.mark.parametrize(
    ("challenge", "last"),
    [
        (b"r=other,s=c2FsdA==,i=4096", None),
        (b"r=nonce1,s=c2FsdA==,i=16385", None),
        (b"r=nonce1,s=c2FsdA==,i=4095", None),
        (b"r=nonce1,s=c2FsdA==", None),
        (b"nonsense", None),
        (b"r=nonce1,s=c2FsdA==,i=4096", b"v=AAAA"),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_found_out(challenge, last):
    """And one that asks for a slow computation, or for one so quick that the proof tells much."""
    messages = scram_messages("sha256", "a,b", "hush", "nonce")
    assert next(messages) == b"n,,n=a=2Cb,r=nonce"
    send = partial(messages.send, challenge)
    if last is not None:
        assert send().startswith(b"c=biws,r=nonce1,p=")
        send = partial(messages.send, last)
    with pytest.raises(OSError, match="the broker"):
        send()
