"""``--command-config``: commands on listeners with TLS and logins, and what a failure says."""

from functools import partial

import pytest
import trio

from kwire.cli import main
from kwire.cli.commands import COMMANDS
from kwire.cli.parsing import actions_of, make_parser
from tests.support.arguments import arguments_of
from tests.support.certificates import Authority
from tests.support.in_process import running_server

CA = Authority()
SETTINGS = {
    "listeners": "SASL_SSL://127.0.0.1:0,CERT://127.0.0.1:0",
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CERT:SSL",
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": 'x.Y required user_alice="hush";',
    "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
        "OAuthBearerUnsecuredValidatorCallbackHandler"
    ),
    "connection.failed.authentication.delay.ms": "0",
    "listener.name.cert.ssl.client.auth": "required",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": CA.certificate_pem,
}
PLAIN = 'sasl.mechanism=PLAIN\nsasl.jaas.config=x.Y required username="alice" password="hush";\n'
OAUTH = (
    "sasl.mechanism=OAUTHBEARER\nsasl.jaas.config=x.Y required "
    'unsecuredLoginStringClaim_sub="alice";\n'
)


@pytest.fixture
async def server(tmp_path):
    """A broker with a listener for logins and one for certificates."""
    path = CA.sign("server").write_pem(tmp_path / "server.pem")
    settings = {**SETTINGS, "ssl.keystore.location": str(path)}
    async with running_server(tmp_path / "data", settings) as running:
        yield running


@pytest.fixture
def write(tmp_path, server):
    """Writes client properties for a listener, and names their file."""

    def write(text, protocol="SASL_SSL", ca=CA, listener=0):
        (tmp_path / "ca.pem").write_text(ca.certificate_pem)
        port = server.server.addresses[listener][1]
        path = tmp_path / "client.properties"
        path.touch(mode=0o600)
        path.write_text(
            f"security.protocol={protocol}\nbootstrap.servers=127.0.0.1:{port}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'ca.pem'}\n{text}"
        )
        return str(path)

    return write


async def _run(*arguments):
    return await trio.to_thread.run_sync(partial(main, arguments))


@pytest.mark.parametrize("login", [PLAIN, OAUTH])
async def test_commands_go_through_tls_and_a_login(write, login, tmp_path, capsys, monkeypatch):
    """Topics, records and groups; the file also says where the cluster is."""
    monkeypatch.setenv("KWIRE_CONFIG", "/nowhere")
    monkeypatch.delenv("KWIRE_BOOTSTRAP_SERVER", raising=False)
    secured = ("--command-config", write(login))
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    assert await _run("topics", "create", "t", *secured) == 0
    assert await _run("produce", "t", str(lines), "-q", "--create", *secured) == 0
    monkeypatch.setenv("KWIRE_COMMAND_CONFIG", secured[1])
    capsys.readouterr()
    group = ("--from-beginning", "--exit", "-g", "g")
    assert await _run("consume", "t", *group) == 0
    assert capsys.readouterr().out == "one\ntwo\n"
    assert await _run("groups", "describe", "g") == 0
    assert await _run("health") == 0


async def test_a_certificate_opens_a_listener_that_wants_one(write, tmp_path, capsys):
    """And without one the command says what TLS said."""
    key = CA.sign("alice").write_pem(tmp_path / "alice.pem")
    with_key = write(
        f"ssl.keystore.type=PEM\nssl.keystore.location={key}\n", protocol="SSL", listener=1
    )
    assert await _run("topics", "list", "--command-config", with_key) == 0
    without = write("", protocol="SSL", listener=1)
    assert await _run("topics", "list", "--command-config", without) == 1
    assert "CERTIFICATE_REQUIRED" in capsys.readouterr().err


async def test_what_a_failure_says(write, server, capsys):
    """One line each, without the password; and the way to this option where it is missing."""
    wrong = write(PLAIN.replace("hush", "guess"))
    assert await _run("topics", "list", "--command-config", wrong) == 1
    said = capsys.readouterr().err
    assert "the login failed: Authentication failed" in said
    assert "guess" not in said
    stranger = write(PLAIN, ca=Authority())
    assert await _run("topics", "list", "--command-config", stranger) == 1
    assert "the TLS handshake failed: " in capsys.readouterr().err
    missing = write(PLAIN.replace("PLAIN", "SCRAM-SHA-512"))
    assert await _run("topics", "list", "--command-config", missing) == 1
    assert "only with PLAIN, OAUTHBEARER" in capsys.readouterr().err
    address = f"127.0.0.1:{server.port}"
    assert await _run("topics", "list", "-b", address, "--timeout", "2") == 1
    said = capsys.readouterr().err
    assert "with --command-config" in said
    assert len(said.splitlines()) == 1


def test_every_command_with_a_cluster_takes_it():
    """Whatever names a cluster can name how to log in there."""
    _, commands = make_parser(COMMANDS)
    parsers = list(commands.choices.values())
    found = 0
    while parsers:
        parser = parsers.pop()
        options = {one.dest for one in arguments_of(parser)}
        found += "bootstrap_server" in options
        assert ("bootstrap_server" in options) == ("command_config" in options)
        for actions in actions_of(parser):
            parsers += actions.choices.values()
    assert found > 20
