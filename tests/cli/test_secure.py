"""``kwire secure init``: what it makes, what it overwrites, and that it works as it is."""

import stat
from functools import partial
from pathlib import Path

import pytest
import trio
from cryptography import x509

from kwire.cli import main
from kwire.config.broker import BrokerConfig
from kwire.config.properties import parse_properties
from kwire.security.listeners import secured_listeners
from kwire.testing.in_process import running_server


@pytest.fixture
def made(tmp_path: Path, capsys) -> Path:
    """The directory of a broker on this machine, and what was printed in the file said."""
    directory = tmp_path / "secured"
    assert main(["secure", "init", str(directory)]) == 0
    (tmp_path / "said").write_text(capsys.readouterr().out)
    return directory


def test_secrets_are_for_their_owner(made: Path) -> None:
    """Nothing that was printed is a secret, and only the CA's certificate is for everybody."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()}
    assert set(modes) == {
        *("ca.pem", "ca.key", "server.pem", "server.properties"),
        *("client.properties", "admin.password"),
    }
    assert {mode for name, mode in modes.items() if name != "ca.pem"} == {0o600}
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    password = (made / "admin.password").read_text()
    assert len(password) >= 32
    assert password not in (made / "server.properties").read_text()
    said = (made.parent / "said").read_text()
    assert password not in said
    assert "PRIVATE KEY" not in said


def test_nothing_is_overwritten(made: Path, capsys) -> None:
    """A second time it is an error, and the files are the same; an empty directory is taken."""
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    assert main(["secure", "init", str(made)]) == 1
    assert "overwrites nothing: name another directory" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before
    (made.parent / "empty").mkdir()
    assert main(["secure", "init", str(made.parent / "empty")]) == 0
    assert {path.name for path in made.parent.iterdir()} == {"secured", "empty", "said"}


async def test_a_broker_starts_with_it_and_a_command_logs_in(made: Path, capsys) -> None:
    """Over TLS, as the first user, who may do everything."""
    settings = parse_properties((made / "server.properties").read_text())
    settings["listeners"] = "SASL_SSL://127.0.0.1:0"
    del settings["advertised.listeners"]
    directory = Path(settings.pop("log.dirs"))
    async with running_server(directory, settings) as running:
        client = str(made / "client.properties")
        command = ["topics", "create", "t", "-b", f"127.0.0.1:{running.port}"]
        run = partial(main, [*command, "--command-config", client])
        assert await trio.to_thread.run_sync(run) == 0
    assert "created t" in capsys.readouterr().out


def test_a_cluster_of_several(tmp_path: Path) -> None:
    """Brokers have a listener of their own, certificates with their names, and no rights more."""
    hosts = [word for n in (1, 2, 3) for word in ("--host", f"kafka-{n}.example.org")]
    directory = tmp_path / "secured"
    assert main(["secure", "init", str(directory), *hosts, "--brokers", "3"]) == 0
    client = parse_properties((directory / "client.properties").read_text())
    names = [f"kafka-{n}.example.org:9092" for n in (1, 2, 3)]
    assert client["bootstrap.servers"] == ",".join(names)
    for number in (1, 2, 3):
        text = (directory / f"broker-{number}.properties").read_text()
        config = BrokerConfig.load(parse_properties(text))
        assert config.inter_broker_name == "BROKERS"
        assert config.given["super.users"].split(";")[-1] == "User:CN=broker-3"
        assert set(secured_listeners(config, lambda: None)) == {"SASL_SSL", "BROKERS"}
        pem = (directory / f"broker-{number}.pem").read_bytes()
        certificate = x509.load_pem_x509_certificate(pem)
        assert certificate.subject.rfc4514_string() == f"CN=broker-{number}"
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert f"kafka-{number}.example.org" in found.get_values_for_type(x509.DNSName)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--user", "a b"], "--user a b: write letters"),
        (["--host", "a/b"], "--host a/b: write a host's name"),
        (["--host", "kafka:9092"], "--host kafka:9092: write a host's name"),
        (["--port", "60000"], "--port may be 50000, at most"),
    ],
)
def test_what_cannot_be_used_is_named(arguments: list[str], said: str, tmp_path: Path, capsys):
    """And nothing is made."""
    assert main(["secure", "init", str(tmp_path / "x"), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
