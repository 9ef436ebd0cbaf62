"""Keys that a dynamic config names: those that a listener can't use are refused, as by Kafka.

Others count for new connections (``test_tls``).
"""

import ssl

import pytest
import trio

from kwire.errors import ErrorCode
from kwire.metadata.config_control import Operation
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.security.own_keys import LOOK_INTERVAL_S
from tests.support.certificates import Authority
from tests.support.in_process import RawClient, running_server

CA, OTHER_CA = Authority(), Authority("another CA")
SSL = "listener.name.ssl.ssl"


@pytest.fixture
def settings(tmp_path):
    """A listener with TLS, and one with client certificates."""
    path = CA.sign("server").write_pem(tmp_path / "server.pem")
    return {
        "listeners": "SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.certificate_pem,
        "listener.name.mutual.ssl.client.auth": "required",
    }


@pytest.fixture
async def running(tmp_path, settings):
    """A server."""
    async with running_server(tmp_path, settings) as server:
        yield server


async def _connect(running, ca=CA):
    context = ssl.create_default_context(cadata=ca.certificate_pem)
    stream = await trio.open_tcp_stream(*running.server.addresses[0])
    return RawClient(trio.SSLStream(stream, context, server_hostname="localhost"))


async def _alter(client, prefix=SSL, **values):
    """Alter dynamic configs of a listener, as kafka-configs does; returns code and message."""
    configs = [
        AlterableConfig(
            name=f"{prefix}.{name.replace('_', '.')}",
            config_operation=Operation.DELETE if value is None else Operation.SET,
            value=None if value is None else str(value),
        )
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name="1", configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    [found] = (await client.request(request, 1, IncrementalAlterConfigsResponse)).responses
    return found.error_code, found.error_message


@pytest.mark.parametrize(
    ("setting", "make", "said"),
    [
        ("keystore_location", lambda _: "/no/such/file.pem", "No such file"),
        ("keystore_location", lambda path: _text(path, "nonsense"), "no private key"),
        ("keystore_location", lambda path: "a\0b", "no name of a file"),
        ("truststore_location", lambda _: "/no/such/file.pem", ""),
        ("principal_mapping_rules", lambda _: "RULE:((", "ssl.principal.mapping.rules"),
        (
            "keystore_location",
            lambda path: CA.sign("other").write_pem(path),
            "another distinguished name; ssl.allow.dn.changes",
        ),
        (
            "keystore_location",
            lambda path: CA.sign("server", hosts=()).write_pem(path),
            "lacks the names localhost; ssl.allow.san.changes",
        ),
    ],
)
async def test_a_key_store_that_cannot_be_used_is_refused(
    running, tmp_path, caplog, mock_clock, setting, make, said
):
    """As by Kafka: the tool is told, nothing is kept, and the certificate is the old one."""
    client = await _connect(running)
    value = make(tmp_path / "new.pem")
    code, message = await _alter(client, **{"truststore_certificates": "", setting: value})
    assert code == ErrorCode.INVALID_REQUEST
    assert "listener SSL failed: " in message
    assert said in message
    assert not running.broker.image.config(ConfigResourceType.BROKER, "1")
    mock_clock.jump(LOOK_INTERVAL_S)
    again = await _connect(running)
    await again.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert "keeps its old certificate" not in caplog.text


def _text(path, text):
    path.touch(mode=0o600)
    path.write_text(text)
    return path


@pytest.mark.parametrize("names", [("localhost",), ("localhost", "kafka.example")])
async def test_a_key_store_for_the_same_names_is_taken(running, tmp_path, mock_clock, names):
    """And for more names; without it, the one of the file counts, which has fewer."""
    client = await _connect(running)
    path = OTHER_CA.sign("server", hosts=names).write_pem(tmp_path / "new.pem")
    assert await _alter(client, keystore_location=path) == (0, None)
    mock_clock.jump(LOOK_INTERVAL_S)
    renewed = await _connect(running, ca=OTHER_CA)
    code, _ = await _alter(renewed, keystore_location=None)
    assert (code == 0) == (len(names) == 1)


@pytest.mark.parametrize(
    ("setting", "certified"),
    [
        ("ssl.allow.dn.changes", CA.sign("other")),
        ("ssl.allow.san.changes", CA.sign("server", hosts=())),
    ],
)
async def test_other_names_where_settings_allow_them(tmp_path, settings, setting, certified):
    """Each setting allows one kind of change."""
    async with running_server(tmp_path, {**settings, setting: "true"}) as running:
        client = await _connect(running)
        path = certified.write_pem(tmp_path / "new.pem")
        assert await _alter(client, keystore_location=path) == (0, None)


async def test_a_certificate_that_has_ended_is_refused(running, tmp_path):
    """Nobody would accept it; Kafka takes it on a listener of clients."""
    client = await _connect(running)
    path = CA.sign("server", days=-1).write_pem(tmp_path / "new.pem")
    code, message = await _alter(client, keystore_location=path)
    assert code == ErrorCode.INVALID_REQUEST
    assert "certificate has expired" in message


@pytest.mark.parametrize(
    ("setting", "is_refused"),
    [({}, False), ({"inter.broker.listener.name": "SSL"}, True)],
)
async def test_brokers_trust_each_other_while_keys_change(tmp_path, settings, setting, is_refused):
    """On their listener a certificate of another CA is refused; elsewhere it is the user's choice.

    Where they didn't trust each other before, because certificates are of a CA that everybody
    knows, nothing is compared.
    """
    async with running_server(tmp_path, {**settings, **setting}) as running:
        client = await _connect(running)
        path = OTHER_CA.sign("server").write_pem(tmp_path / "new.pem")
        code, message = await _alter(client, keystore_location=path)
        assert (code == ErrorCode.INVALID_REQUEST) == is_refused
        if is_refused:
            assert "brokers with the old keys and with the new ones don't connect" in message
    untrusted = {"ssl.truststore.certificates": OTHER_CA.certificate_pem}
    async with running_server(tmp_path / "2", {**settings, **setting, **untrusted}) as running:
        client = await _connect(running)
        path = CA.sign("server").write_pem(tmp_path / "newer.pem")
        assert await _alter(client, keystore_location=path) == (0, None)


async def test_a_certificate_that_has_ended_may_be_replaced(tmp_path, settings):
    """By one with any name: nobody would have accepted the old one."""
    path = CA.sign("server", days=-1).write_pem(tmp_path / "old.pem")
    mutual = {"listener.name.mutual.ssl.keystore.location": str(path)}
    async with running_server(tmp_path, {**settings, **mutual}) as running:
        client = await _connect(running)
        new = CA.sign("other").write_pem(tmp_path / "new.pem")
        prefix = "listener.name.mutual.ssl"
        assert await _alter(client, prefix, keystore_location=new) == (0, None)
