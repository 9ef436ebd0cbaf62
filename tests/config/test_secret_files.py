"""Files with secrets are refused if everybody may read them; nothing makes a reader wait."""

import os
from pathlib import Path

import pytest

from kwire.cli import main, process_tuning
from kwire.config import secret_files
from kwire.config.secret_files import UnsafeFile, read_public, read_secret

SECRETS = (
    "delegation.token.secret.key=hush",
    "listener.name.sasl.plain.sasl.jaas.config=x.P required user_a=hush;",
    "listener.name.ssl.ssl.keystore.password=hush",
    "ssl.keystore.password=hu${sh",
    "ssl.keystore.password=${env:X}hush",
    'listener.name.sasl.plain.sasl.jaas.config=x.P required user_a="${env:X}" user_b="hush";',
    "listener.name.sasl.plain.sasl.jaas.config=x.P required user_a=${env:X} password=hush;",
    'sasl.jaas.config=x.P required password="${env:X}hush";',
    "kwire.scram.first.users=SCRAM-SHA-512=[name=${env:X},password=hush]",
)
WRONG = "num.partitions=oops"


@pytest.fixture(autouse=True)
def process_of_the_tests(monkeypatch):
    """The broker would switch the collector off, and more, in a process of its own."""
    monkeypatch.setattr(process_tuning, "tune_process", lambda: None)


@pytest.mark.parametrize("line", SECRETS)
@pytest.mark.parametrize(("mode", "is_refused"), [(0o644, True), (0o602, True), (0o640, False)])
def test_a_broker_does_not_start_with_secrets_that_everybody_may_read(
    tmp_path, capsys, line, mode, is_refused
):
    """It says which file, and not what is in it; otherwise it gets to a value that is wrong."""
    config = tmp_path / "server.properties"
    config.write_text(f"{WRONG}\n{line}\n")
    config.chmod(mode)
    assert main(["serve", "--config", str(config)]) == 1
    said = capsys.readouterr().err
    assert (f"everybody on this machine may read or write {config}" in said) is is_refused
    assert ("num.partitions" in said) is not is_refused
    assert "hush" not in said


@pytest.mark.parametrize(
    "line",
    [
        SECRETS[0].replace("hush", "${env:X}"),
        SECRETS[1].replace("hush", "${file:/run/secrets:a}"),
        'sasl.jaas.config=x.P required username="a" password="${env:X}" user_a="${env:X}";',
        "sasl.jaas.config=x.P required user_a=${env:X} user_b=${env:Y}${env:Z} username=c;",
        "kwire.scram.first.users=SCRAM-SHA-512=[name=a,password=${env:X}]",
        "ssl.truststore.certificates=x",
        "log.dirs=x",
    ],
)
def test_references_and_certificates_are_no_secrets(tmp_path, capsys, line):
    config = tmp_path / "server.properties"
    config.write_text(f"{WRONG}\n{line}\n")
    config.chmod(0o644)
    assert main(["serve", "--config", str(config)]) == 1
    assert "everybody" not in capsys.readouterr().err


@pytest.mark.parametrize("read", [read_secret, read_public])
@pytest.mark.parametrize("kind", ["pipe", "directory", "device", "no name", "huge"])
def test_only_regular_files_of_some_size_are_read(tmp_path, monkeypatch, read, kind):
    """A client that may change configs can name any file of the broker's machine."""
    monkeypatch.setattr(secret_files, "MOST_BYTES", 1000)
    path: Path | str = tmp_path / "file"
    match kind:
        case "pipe":
            os.mkfifo(path, 0o600)
        case "directory":
            path = tmp_path
        case "device":
            path = "/dev/zero"
        case "no name":
            path = "a\0b"
        case "huge":
            Path(path).write_bytes(bytes(1001))
            Path(path).chmod(0o600)
    with pytest.raises(UnsafeFile, match="cannot read"):
        read(str(path))


def test_a_command_may_read_from_a_pipe(tmp_path):
    """As in ``--command-config <(vault read …)``."""
    reading, writing = os.pipe()
    os.write(writing, b"sasl.mechanism=PLAIN\n")
    os.close(writing)
    assert read_secret(f"/dev/fd/{reading}", may_be_pipe=True) == b"sasl.mechanism=PLAIN\n"
    os.close(reading)
