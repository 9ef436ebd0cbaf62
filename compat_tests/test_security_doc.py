"""The recipes of docs/SECURITY.md, as they stand, with Kafka's tools and stock clients.

Only places are others: directories, hosts and ports. The broker is always a kwire.
"""

import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError

from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import CONFIGS
from tests.support.certificates import Authority
from tests.support.ports import free_port

PAGE = (Path(__file__).parent.parent / "docs" / "SECURITY.md").read_text(encoding="utf-8")
KWIRE = [sys.executable, "-m", "kwire"]
TOOLS = {
    "kafka-configs": CONFIGS,
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
}
MODULES = "org.apache.kafka.common.security"
HOST = "kafka.example.org"
SECRET = "delegation.token.secret.key=the-secret-key\n"


def block(name: str) -> str:
    """The lines of a recipe."""
    [found] = re.findall(rf"<!-- recipe: {name} -->\n```\w+\n(.*?)```", PAGE, re.S)
    return str(found)


def commands(name: str, **places: str) -> list[list[str]]:
    """The words of a recipe's commands, in places of this machine and without comments."""
    text = _placed(block(name), places).replace("\\\n", "")
    return [shlex.split(line, comments=True) for line in text.splitlines()]


def _placed(text: str, places: dict[str, str]) -> str:
    for before, after in places.items():
        text = text.replace(before, after)
    return text


def run(words: list[str], *, may_fail: bool = False) -> str:
    """Run a command of kwire or of Kafka; what it printed."""
    name, *arguments = words
    if name == "kwire":
        done = subprocess.run([*KWIRE, *arguments], capture_output=True, text=True, check=False)
        assert may_fail or done.returncode == 0, done
        return done.stdout
    return run_tool(TOOLS[name.removesuffix(".sh")], *arguments)


def client_of(bootstrap: str, ca_file: Path, user: str, mechanism: str) -> dict[str, Any]:
    """The settings of kafka-python; the password of a user is secret-of-NAME."""
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(ca_file),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": f"secret-of-{user}",
    }


def _send(how: dict[str, Any], topic: str) -> None:
    producer = kafka.KafkaProducer(**how)
    try:
        producer.send(topic, b"hello").get(30)
    finally:
        producer.close(5)


def _read(how: dict[str, Any], topic: str, group: str) -> bytes:
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    consumer = kafka.KafkaConsumer(topic, group_id=group, **how, **reading)
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def test_begin_with_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker, a topic, a user who may write it, and new certificates while all goes on."""
    port, directory = str(free_port()), tmp_path / "kwire"
    at = {f"{HOST}:9092": f"localhost:{port}", HOST: "localhost", "/etc/kwire": str(directory)}
    init, serve, create = commands("begin", **at)
    run([*init, "--port", port])
    monkeypatch.chdir(directory)  # where client.properties is
    with subprocess.Popen([*KWIRE, *serve[1:]], stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert "ready" in broker.stdout.readline()
            assert "created orders" in run(create)
            _has_no_dump(broker.pid)
            for words in commands("bob", **at):
                run(words)
            carols = _placed(block("carol"), at)
            subprocess.run([sys.executable, "-c", carols], check=True, timeout=60)
            bob, carol = (
                client_of(f"localhost:{port}", directory / "ca.pem", name, "SCRAM-SHA-512")
                for name in ("bob", "carol")
            )
            _send(bob, "orders")
            _send(carol, "orders")
            with pytest.raises(KafkaError, match="AuthorizationFailed"):
                _read(bob, "orders", "any")
            before = (directory / "server.pem").read_bytes()
            doctor, renew = commands("renew", **at)
            assert "server.pem" in run(doctor, may_fail=True)
            assert "renewed" in run(renew)
            assert (directory / "server.pem").read_bytes() != before
            _send(bob, "orders")
        finally:
            broker.terminate()


def _has_no_dump(pid: int) -> None:
    """A core dump would hold the broker's keys."""
    limits = Path(f"/proc/{pid}/limits").read_text()
    [soft] = re.findall(r"^Max core file size +(\S+)", limits, re.MULTILINE)
    assert soft in ("0", "1")


class Place(NamedTuple):
    """A broker as the page sets it up."""

    directory: Path
    sasl: str
    ssl: str

    def tool_file(self, name: str, module: str, mechanism: str, user: str) -> Path:
        """A file for ``--command-config``."""
        path = self.directory / name
        path.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={MODULES}.{module}LoginModule required "
            f'username="{user}" password="secret-of-{user}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.directory}/ca.pem\n"
        )
        return path

    def client(self, user: str, mechanism: str) -> dict[str, Any]:
        """The settings of kafka-python."""
        return client_of(self.sasl, self.directory / "ca.pem", user, mechanism)


def _create_users(place: Place) -> None:
    """Those of SCRAM, by ``admin``; another test makes one with the page's own command."""
    login = {
        "bootstrap.servers": place.sasl,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": f"{place.directory}/ca.pem",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "secret-of-admin",
    }
    admin = AdminClient(login)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    for user in ("alice", "bob"):
        wanted = UserScramCredentialUpsertion(user, info, f"secret-of-{user}".encode())
        admin.alter_user_scram_credentials([wanted])[user].result(30)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Listeners, PLAIN and an authorizer as the page has them; SCRAM users made by ``admin``."""
    directory = tmp_path_factory.mktemp("etc")
    ports = {"9093": str(free_port()), "9094": str(free_port())}
    authority = Authority()
    (directory / "ca.pem").write_text(authority.certificate_pem)
    authority.sign("server").write_pem(directory / "server.pem")
    authority.sign("broker").write_pem(directory / "client.pem")
    for name, text in (
        ("secrets.properties", "admin=secret-of-admin\n"),
        (
            "server.properties",
            _placed(
                block("listeners") + block("authorizer") + SECRET,
                {HOST: "localhost", "/etc/kwire": str(directory), **ports},
            ),
        ),
    ):
        (directory / name).touch(mode=0o600)
        (directory / name).write_text(text)
    found = Place(directory, f"localhost:{ports['9093']}", f"localhost:{ports['9094']}")
    options = ["--config", str(directory / "server.properties"), "--data-dir", f"{directory}/data"]
    environment = {**os.environ, "KWIRE_CONFIG": ""}
    with subprocess.Popen(
        [*KWIRE, "serve", *options], stdout=subprocess.PIPE, text=True, env=environment
    ) as broker:
        try:
            assert broker.stdout is not None
            assert "ready" in broker.stdout.readline()
            found.tool_file("admin.properties", "plain.Plain", "PLAIN", "admin")
            _create_users(found)
            yield found
        finally:
            broker.terminate()


def test_listeners(place: Place) -> None:
    """A user of PLAIN whose password is in another file, and a name from a certificate."""
    _send(place.client("admin", "PLAIN"), "by-admin")
    pem = str(place.directory / "client.pem")
    files = {"ssl_cafile": f"{place.directory}/ca.pem", "ssl_certfile": pem, "ssl_keyfile": pem}
    how = {"bootstrap_servers": place.ssl, "security_protocol": "SSL", **files}
    _send(how, "by-the-certificate")  # CN=broker is the super user User:broker
    context = ssl.create_default_context(cafile=files["ssl_cafile"])
    host, port = place.ssl.split(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain, server_hostname=host) as tls,
        pytest.raises(ssl.SSLError, match="certificate required"),
    ):
        tls.recv(1)


def test_acls(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alice writes, bob reads, and neither does what the other may."""
    monkeypatch.chdir(place.directory)
    alice, bob = (place.client(user, "SCRAM-SHA-512") for user in ("alice", "bob"))
    with pytest.raises(KafkaError):
        _send({**alice, "max_block_ms": 3000}, "orders")
    for words in commands("acls", **{"localhost:9092": place.sasl}):
        run(words)
    _send(alice, "orders")
    assert _read(bob, "orders", "billing") == b"hello"
    with pytest.raises(KafkaError, match="AuthorizationFailed"):
        _send(bob, "orders")


def test_delegation_tokens(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A token that alice makes, and the options of Spark, which Kafka's Java client takes."""
    monkeypatch.chdir(place.directory)
    place.tool_file("alice.properties", "scram.Scram", "SCRAM-SHA-512", "alice")
    [create] = commands("token", **{"localhost:9093": place.sasl})
    said = run(create)
    token_id, hmac = re.search(r"(\S{22})\s+(\S+==)", said).groups()  # type: ignore[union-attr]
    names: dict[str, Any] = {"token_id": token_id, "hmac": hmac}
    exec(block("token-in-spark").replace("localhost:9093", place.sasl), names)
    path = tmp_path / f"{uuid.uuid4().hex}.properties"
    options = {name.removeprefix("kafka."): text for name, text in names["options"].items()}
    path.write_text("".join(f"{name}={text}\n" for name, text in options.items()))
    listing = ("--bootstrap-server", place.sasl, "--command-config", str(path), "--list")
    run_tool("org.apache.kafka.tools.TopicCommand", *listing)
