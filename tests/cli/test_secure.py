"""``kwire secure``: what it makes, what it overwrites, that it works as it is, and renewals."""

import os
import ssl
import stat
from functools import partial
from pathlib import Path

import pytest
import trio
from cryptography import x509

from kwire.cli import main
from kwire.cli.certificate_checks import DAYS, check_certificates
from kwire.cli.finding import ACT, GOOD
from kwire.config.broker import BrokerConfig
from kwire.config.properties import parse_properties
from kwire.security.authority import NewAuthority
from kwire.security.listeners import secured_listeners
from kwire.security.own_keys import LOOK_INTERVAL_S, OwnKeys
from kwire.security.renewal import read_authority
from kwire.security.tls import client_context
from tests.support.in_process import running_server


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
        assert (config["default.replication.factor"], config["min.insync.replicas"]) == (3, 2)
        assert config.given["super.users"].split(";")[-1] == "User:CN=broker-3"
        assert set(secured_listeners(config, lambda: None)) == {"SASL_SSL", "BROKERS"}
        pem = (directory / f"broker-{number}.pem").read_bytes()
        certificate = x509.load_pem_x509_certificate(pem)
        assert certificate.subject.rfc4514_string() == f"CN=broker-{number}"
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert f"kafka-{number}.example.org" in found.get_values_for_type(x509.DNSName)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--brokers", "3", "--workers", "2"], "leave one of them out"),
        (["--workers", "65"], "64 workers at most"),
    ],
)
def test_workers_and_brokers_do_not_go_together(tmp_path: Path, capsys, words, said) -> None:
    """Nor are there more of them than ``kwire serve`` takes."""
    assert main(["secure", "init", str(tmp_path / "secured"), *words]) == 2
    assert said in capsys.readouterr().err


async def _shown(address) -> x509.Certificate:
    """The certificate that a listener shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    stream = trio.SSLStream(await trio.open_tcp_stream(*address), context)
    await stream.do_handshake()
    shown = x509.load_der_x509_certificate(stream.getpeercert(binary_form=True))
    await stream.aclose()
    return shown


async def test_certificates_are_renewed_while_a_broker_runs(
    made: Path, capsys, mock_clock: trio.testing.MockClock
) -> None:
    """From the same CA, for the same names; clients and the broker as a client take the new one."""
    settings = parse_properties((made / "server.properties").read_text())
    settings["listeners"] = "SASL_SSL://127.0.0.1:0"
    del settings["advertised.listeners"]
    directory = Path(settings.pop("log.dirs"))
    before = (made / "server.pem").stat()
    async with running_server(directory, settings) as running:
        old = await _shown(running.server.addresses[0])
        keys = OwnKeys("SASL_SSL", BrokerConfig.load(settings), dict, client_context)
        first = keys.current(0)
        assert main(["secure", "renew", str(made)]) == 0
        assert f"renewed {made / 'server.pem'}: its certificate ends on" in capsys.readouterr().out
        os.utime(made / "server.pem", (1, 1))  # a clock that stands still shows no change
        mock_clock.jump(LOOK_INTERVAL_S)
        new = await _shown(running.server.addresses[0])
        client = str(made / "client.properties")
        command = ["topics", "list", "-b", f"127.0.0.1:{running.port}", "--command-config", client]
        assert await trio.to_thread.run_sync(main, command) == 0
    assert keys.current(1) is first  # files aren't looked at all the time
    assert keys.current(LOOK_INTERVAL_S + 1) is not first
    assert new.serial_number != old.serial_number
    assert new.public_key() != old.public_key()
    assert (new.subject, new.issuer) == (old.subject, old.issuer)
    kind = x509.SubjectAlternativeName
    names = [one.extensions.get_extension_for_class(kind).value for one in (old, new)]
    assert names[0] == names[1]
    after = (made / "server.pem").stat()
    assert (after.st_mode, after.st_uid) == (before.st_mode, before.st_uid)
    assert not [name for name in os.listdir(made) if name.startswith(".")]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda made: (made / "ca.key").unlink(), "ca.key: No such file"),
        (lambda made: (made / "ca.key").write_text("x"), "are no CA's key and certificate"),
        (
            lambda made: (made / "ca.key").write_text(NewAuthority("another", 1).key_pem),
            "is not the key of the CA in",
        ),
        (lambda made: (made / "server.pem").unlink(), "has no certificate with its key"),
        (
            lambda made: (made / "server.pem").write_text(_foreign()),
            "has no certificate with its key that this CA has signed",
        ),
    ],
)
def test_what_cannot_be_renewed_stays(made: Path, capsys, damage, said: str) -> None:
    """One line says why."""
    damage(made)
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    assert main(["secure", "renew", str(made)]) == 1
    assert said in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before


def _foreign() -> str:
    pair = NewAuthority("another", 1).sign("server", ["localhost"], 1)
    return pair.key_pem + pair.certificate_pem


def test_a_certificate_ends_with_its_ca() -> None:
    """Clients refuse what goes on for longer."""
    authority = NewAuthority("short", 10)
    ends = authority.sign("server", ["localhost"], 730).certificate.not_valid_after_utc
    assert ends == authority.certificate.not_valid_after_utc


def test_doctor_tells_of_a_certificate_that_ends_soon(made: Path) -> None:
    """And what to do; while there is time it says that all is well."""
    config = BrokerConfig.load(parse_properties((made / "server.properties").read_text()))
    [good] = check_certificates(config)
    assert good.level == GOOD
    authority = read_authority(made / "ca.pem", made / "ca.key")
    pair = authority.sign("server", ["localhost"], DAYS - 1)
    (made / "server.pem").write_text(pair.key_pem + pair.certificate_pem)
    [found] = check_certificates(config)
    assert found.level == ACT
    assert found.what.startswith(f"{made / 'server.pem'}: its certificate ends on 2")
    assert f"kwire secure renew {made}" in found.remedy
    assert not check_certificates(BrokerConfig.load({}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--user", "a b"], "--user a b: write letters"),
        (["--host", "a/b"], "--host a/b: write a host's name"),
        (["--host", "kafka:9092"], "--host kafka:9092: write a host's name"),
        (["--port", "65536"], "--port 65536: it may be 65535 at most"),
        (["--port", "60000", "--brokers", "3"], "--port 60000: it may be 50000 at most"),
        (["--brokers", "101"], "--brokers 101: there may be 100 at most"),
    ],
)
def test_what_cannot_be_used_is_named(arguments: list[str], said: str, tmp_path: Path, capsys):
    """And nothing is made."""
    assert main(["secure", "init", str(tmp_path / "x"), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
