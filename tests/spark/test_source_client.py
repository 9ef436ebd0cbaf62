"""Sources with TLS and a login: reached with Kafka's client options, and no secret is told."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cli import main
from kwire.client.errors import NotLetIn
from kwire.spark.broker_view import BrokerView
from kwire.spark.pipeline_file import read_pipeline
from kwire.spark.session import as_arguments
from kwire.spark.settings import Source, WrongSetting
from kwire.spark.source import connector_options
from kwire.spark.source_client import open_source, opener_of
from tests.support.certificates import Authority
from tests.support.in_process import running_server

CA = Authority()
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SETTINGS = {
    "listeners": "SASL_SSL://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": 'x.Y required user_alice="geheim";',
    "connection.failed.authentication.delay.ms": "0",
    "ssl.keystore.type": "PEM",
}
FILE = """
name = "p"
checkpoint = "{directory}/checkpoint"
source = {{ bootstrap_servers = "{bootstrap}", topics = ["t"], client = {{ {client} }} }}
decode = {{ schema = "n long" }}
sink = {{ kind = "parquet", path = "{directory}/table" }}
"""


@pytest.fixture
async def bootstrap(tmp_path: Path) -> AsyncIterator[str]:
    """The address of a broker that wants TLS and a login."""
    path = CA.sign("server").write_pem(tmp_path / "server.pem")
    (tmp_path / "ca.pem").write_text(CA.certificate_pem)
    settings = {**SETTINGS, "ssl.keystore.location": str(path)}
    async with running_server(tmp_path / "data", settings) as running:
        yield f"127.0.0.1:{running.port}"


@pytest.fixture
def client(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Client options for it, with a password."""

    def options(password: str = "geheim") -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{JAAS} username="alice" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
            "fetch.max.wait.ms": "20",
        }

    return options


async def in_thread(work: Callable[[], Any]) -> Any:
    """The result of work that waits for a broker of this event loop."""
    return await trio.to_thread.run_sync(work)


def write(path: Path, bootstrap: str, client: dict[str, str]) -> Path:
    """A pipeline's file."""
    options = ", ".join(f"\"{name}\" = '{value}'" for name, value in client.items())
    path.write_text(FILE.format(directory=path.parent, bootstrap=bootstrap, client=options))
    return path


async def test_what_a_pipeline_asks_goes_through_tls_and_a_login(
    bootstrap: str,
    client: Callable[..., dict[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Offsets are committed, and status and check work; Spark's connector gets the same options."""
    source = Source(bootstrap, ("t",), client=client())
    async with open_source(source) as cluster:
        await cluster.topics(["t"], creates=True)

    def ask() -> Any:
        with BrokerView(source, patience_s=0) as view:
            view.commit("g", {("t", 0): 0})
            return view.ends([("t", 0)]), view.committed("g")

    assert await in_thread(ask) == ({("t", 0): 0}, {("t", 0): 0})
    file = write(tmp_path / "p.toml", bootstrap, client())
    for action in ("check", "status"):
        assert await in_thread(lambda now=action: main(["pipeline", now, str(file)])) == 0
    printed = capsys.readouterr()
    assert "geheim" not in printed.out + printed.err
    options = connector_options(read_pipeline(file).source)
    assert options["kafka.sasl.jaas.config"] == client()["sasl.jaas.config"]


async def test_a_login_that_fails_is_said_at_once_and_without_the_password(
    bootstrap: str,
    client: Callable[..., dict[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It isn't tried for a minute, as a broker that is away is."""
    source = Source(bootstrap, ("t",), client=client("falsch"))

    def ask() -> None:
        with BrokerView(source) as view:
            view.topics(["t"])

    with pytest.raises(NotLetIn) as caught:
        await in_thread(ask)
    assert "falsch" not in str(caught.value)
    file = write(tmp_path / "p.toml", bootstrap, client("falsch"))
    for action in ("check", "status"):
        assert await in_thread(lambda now=action: main(["pipeline", now, str(file)])) == 1
    printed = capsys.readouterr()
    assert "falsch" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "source.client.sasl.jaas.config"),
        ({"sasl.jaas.config": "geheim"}, "source.client"),
        ({"ssl.truststore.location": "/nowhere"}, "/nowhere"),
        ({"ssl.trustore.password": "geheim"}, "no setting of this name"),
    ],
)
def test_options_that_do_not_let_in(
    changes: dict[str, str], said: str, client: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """Each is named, and no secret is."""
    (tmp_path / "ca.pem").write_text(CA.certificate_pem)
    source = Source("127.0.0.1:1", ("t",), client=client() | changes)
    with pytest.raises(WrongSetting) as caught:
        opener_of(source)
    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_secret_may_be_kept_elsewhere(
    client: Callable[..., dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``config.providers`` as Kafka has them: the pipeline's file has no secret then."""
    (tmp_path / "ca.pem").write_text(CA.certificate_pem)
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    options = client("${env:P}") | {"config.providers": "env"}
    options["config.providers.env.class"] = provider
    source = Source("127.0.0.1:1", ("t",), client=options)
    monkeypatch.setenv("P", "geheim")
    opener_of(source)
    monkeypatch.delenv("P")
    with pytest.raises(WrongSetting, match="there is no such value"):
        opener_of(source)


def test_a_file_with_a_secret_that_everybody_may_read(
    client: Callable[..., dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so, unless the secret is elsewhere, or the file is its owner's."""
    for password, mode, is_told in (
        ("x", 0o644, True),
        ("x", 0o600, False),
        ("${a:b}", 0o644, False),
    ):
        file = write(tmp_path / "p.toml", "127.0.0.1:1", client(password))
        file.chmod(mode)
        main(["pipeline", "check", str(file), "--offline"])
        assert ("chmod o-rwx" in capsys.readouterr().err) == is_told


def test_secrets_are_no_arguments_of_sparks_process() -> None:
    """Everybody on a machine sees them; jars and options of Java have to be there."""
    settings = {
        "spark.hadoop.fs.s3a.secret.key": "geheim",
        "spark.app.name": "p",
        "spark.jars": "https://u:p@h/x.jar",
        "spark.driver.extraJavaOptions": "-Dtoken=x",
    }
    assert as_arguments(settings).keys() == settings.keys() - {"spark.hadoop.fs.s3a.secret.key"}
