"""The registry's port with the TLS and the logins of a listener."""

import logging
import ssl
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
import trio

from kwire.config.broker import BrokerConfig
from kwire.server import Server, StartError
from tests.registry.test_serving import SETTINGS, fixed
from tests.support.certificates import Authority
from tests.support.in_process import RunningServer, running_server

OWN = {
    **SETTINGS,
    "listeners": "PLAINTEXT://127.0.0.1:0,OWN://127.0.0.1:0",
    "kwire.registry.security.listener": "OWN",
}
USERS = {
    **OWN,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OWN:SASL_PLAINTEXT",
    "listener.name.own.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.own.plain.sasl.jaas.config": 'x.PlainLoginModule required user_alice="hush";',
    "kwire.scram.first.users": "SCRAM-SHA-256=[name=bob,password=geheim]",
}


def url_of(running: RunningServer) -> str:
    """The address of the registry."""
    assert running.server.registry is not None
    return running.server.registry.url


async def test_users_log_in_with_passwords(tmp_path: Path) -> None:
    """Those of PLAIN and of SCRAM; nobody else learns or changes anything."""
    async with (
        running_server(tmp_path, USERS) as running,
        httpx.AsyncClient(base_url=url_of(running), timeout=30) as client,
    ):
        for login in (("alice", "hush"), ("bob", "geheim"), ("bob", "geheim")):
            answer = await client.post("/subjects/a/versions", json=fixed("A"), auth=login)
            assert answer.json() == {"id": 1}
        for wrong in (("alice", "geheim"), ("bob", "hush"), ("eve", "x"), None):
            answer = await client.post("/subjects/b/versions", json=fixed("B"), auth=wrong)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == 'Basic realm="kwire"'
            assert answer.json()["error_code"] == 401
        assert (await client.get("/subjects")).status_code == 401
        assert (await client.get("/subjects", auth=("alice", "hush"))).json() == ["a"]


async def test_who_tries_passwords_keeps_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A hundred are to be checked for one address; another address has its turn after one."""
    caplog.set_level(logging.INFO, "kwire.registry.logins")
    request = b"GET /subjects HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %s\r\n\r\n"
    async with running_server(tmp_path, USERS) as running:
        assert running.server.registry is not None
        address = running.server.registry.address
        tried = [
            await trio.open_tcp_stream(*address, local_address="127.0.0.2") for _ in range(100)
        ]
        for number, stream in enumerate(tried):
            await stream.send_all(request % b64encode(b"bob:%d" % number))
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(request % b64encode(b"bob:geheim"))
        assert b" 200 OK" in await stream.receive_some()
        assert caplog.text.count("refuses a login from 127.0.0.2") < len(tried) // 2
        for one in (*tried, stream):
            await one.aclose()


def certified(directory: Path) -> tuple[Authority, Mapping[str, str]]:
    """A CA, and the settings of a listener that asks clients for its certificates."""
    authority = Authority()
    key = authority.sign("broker").write_pem(directory / "key.pem")
    trusted = directory / "ca.pem"
    trusted.write_text(authority.certificate_pem)
    return authority, {
        **OWN,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OWN:SSL",
        "listener.name.own.ssl.keystore.type": "PEM",
        "listener.name.own.ssl.keystore.location": str(key),
        "listener.name.own.ssl.truststore.type": "PEM",
        "listener.name.own.ssl.truststore.location": str(trusted),
        "listener.name.own.ssl.client.auth": "required",
    }


async def test_clients_have_certificates(tmp_path: Path) -> None:
    """Those that the listener's CA has signed; without one there is no answer."""
    authority, settings = certified(tmp_path)
    context = ssl.create_default_context(cadata=authority.certificate_pem)
    without = ssl.create_default_context(cadata=authority.certificate_pem)
    context.load_cert_chain(authority.sign("client").write_pem(tmp_path / "client.pem"))
    async with running_server(tmp_path / "data", settings) as running:
        assert url_of(running).startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(base_url=url_of(running), verify=context) as client:
            answer = await client.post("/subjects/a/versions", json=fixed("A"))
            assert answer.json() == {"id": 1}
            assert (await client.get("/subjects")).json() == ["a"]
        async with httpx.AsyncClient(base_url=url_of(running), verify=without) as stranger:
            with pytest.raises(httpx.TransportError):
                await stranger.get("/subjects")


@pytest.mark.parametrize("named", ["PLAINTEXT", "OTHER"])
async def test_a_listener_that_protects_nothing_stops_the_start(tmp_path: Path, named: str) -> None:
    """One line names the setting."""
    settings = {**SETTINGS, "kwire.registry.security.listener": named}
    with pytest.raises(StartError, match=r"kwire\.registry\.security\.listener"):
        await Server(BrokerConfig.load(settings | {"log.dirs": str(tmp_path)})).serve()
