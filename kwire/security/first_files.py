"""The files that ``kwire secure init`` makes: all that a small secured cluster needs to start.

Rules:

- All files are made in a new directory. Either the whole directory appears or nothing of it, and no
  existing file is overwritten.
- Only the owner may read the files (keys, passwords, and settings that contain them), except for
  the CA's certificate, which clients need.
- The brokers' settings hold the salted password of the first user, never the password itself.
"""

import os
import shutil
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_bytes, token_urlsafe
from typing import NamedTuple

from kwire.metadata.scram import salted
from kwire.security.authority import NewAuthority, is_address

CA_DAYS, SERVER_DAYS = 3650, 730
MECHANISM = "SCRAM-SHA-512"
_ITERATIONS = 8192
_PORTS_APART = 10_000
"""The port for other brokers is the port for clients plus this number."""

_MOST_REPLICAS = 3
_HERE = ("localhost", "127.0.0.1", "::1")
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Plan(NamedTuple):
    """The options of the command. If ``hosts`` is empty, only programs on this machine reach the
    broker. Either ``brokers`` or ``workers`` is 1.
    """

    directory: Path
    hosts: Sequence[str]
    user: str
    brokers: int
    port: int
    store: str
    workers: int = 1

    def host(self, number: int) -> str:
        """The host of the broker with this number. Numbers start at 1."""
        if len(self.hosts) == self.brokers:
            return self.hosts[number - 1]
        return self.hosts[0] if self.hosts else "127.0.0.1"

    def port_of(self, number: int) -> int:
        """The port for clients of the broker with this number."""
        return self.port if len(self.hosts) == self.brokers else self.port + number - 1

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses for clients."""
        if self.workers > 1:
            ports = range(self.port, self.port + self.workers)
            return ",".join(_address(self.host(1), port) for port in ports)
        numbers = range(1, self.brokers + 1)
        return ",".join(_address(self.host(n), self.port_of(n)) for n in numbers)

    def settings_file(self, number: int) -> Path:
        """The path of the settings file of the broker with this number."""
        return self.directory / f"{self._name(number)}.properties"

    def _name(self, number: int) -> str:
        return "server" if self.brokers == 1 else f"broker-{number}"

    def contents(self) -> dict[str, str]:
        """The content of every file, by file name."""
        authority = NewAuthority("kwire CA", CA_DAYS)
        password, salt = token_urlsafe(24), token_bytes(16)
        secret = salted(MECHANISM, password.encode(), salt, _ITERATIONS)
        login = f'{_LOGIN} required username="{self.user}" password="{password}";'
        first = (
            f"{MECHANISM}=[name={self.user},iterations={_ITERATIONS},"
            f"salt={b64encode(salt).decode()},saltedpassword={b64encode(secret).decode()}]"
        )
        files = {
            "ca.pem": authority.certificate_pem,
            "ca.key": authority.key_pem,
            f"{self.user}.password": password,
            "client.properties": _text(
                {
                    "bootstrap.servers": self.bootstrap,
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": MECHANISM,
                    "sasl.jaas.config": login,
                    "ssl.truststore.type": "PEM",
                    "ssl.truststore.location": str(self.directory / "ca.pem"),
                }
            ),
        }
        for number in range(1, self.brokers + 1):
            name = self._name(number)
            pair = authority.sign(name, [*dict.fromkeys([*self.hosts, *_HERE])], SERVER_DAYS)
            files[f"{name}.pem"] = pair.key_pem + pair.certificate_pem
            files[f"{name}.properties"] = _text(self._settings(number, first))
        return files

    def _settings(self, number: int, first: str) -> dict[str, str]:
        """The settings of the broker with this number."""
        host, port = self.host(number), self.port_of(number)
        name = self._name(number)
        listeners = {"SASL_SSL": port}
        if self.brokers > 1 or self.workers > 1:
            listeners["BROKERS"] = port + _PORTS_APART
        client_host = "" if self.hosts else "127.0.0.1"
        hosts = {"SASL_SSL": client_host, "BROKERS": client_host}
        if self.workers > 1:
            hosts["BROKERS"] = "127.0.0.1"
        found = {
            "node.id": str(number),
            "log.dirs": str(self.directory / ("data" if self.brokers == 1 else f"data-{number}")),
            "listeners": ",".join(f"{one}://{hosts[one]}:{at}" for one, at in listeners.items()),
            "advertised.listeners": ",".join(
                f"{one}://{_address(host, at)}" for one, at in listeners.items()
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / f"{name}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
            "sasl.enabled.mechanisms": MECHANISM,
            "kwire.scram.first.users": first,
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{self.user}",
        }
        if self.workers > 1:
            return found | self._among_brokers() | {"kwire.workers": str(self.workers)}
        return found | self._among_brokers() | self._replicas() if self.brokers > 1 else found

    def _replicas(self) -> dict[str, str]:
        """The settings of a cluster on several machines."""
        replicas = str(min(self.brokers, _MOST_REPLICAS))
        return {
            "default.replication.factor": replicas,
            "min.insync.replicas": str(int(replicas) - 1),
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(int(replicas) - 1),
            "kwire.metadata.store": self.store,
        }

    def _among_brokers(self) -> dict[str, str]:
        """The settings for a separate listener, where brokers prove who they are by
        certificates.
        """
        names = [f"User:CN={self._name(number)}" for number in range(1, self.brokers + 1)]
        return {
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,BROKERS:SSL",
            "inter.broker.listener.name": "BROKERS",
            "listener.name.brokers.ssl.client.auth": "required",
            "super.users": ";".join([f"User:{self.user}", *names]),
        }


def write_files(plan: Plan) -> None:
    """Make the directory with its files; FileExistsError, OSError."""
    directory = plan.directory
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(f"{directory} is there already, and isn't empty")
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = directory.with_name(f".{directory.name}.{token_urlsafe(6)}")
    draft.mkdir(mode=0o700)
    try:
        for name, text in plan.contents().items():
            mode = 0o644 if name == "ca.pem" else 0o600
            with open(os.open(draft / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as f:
                f.write(text)
        draft.rename(directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def client_lines(plan: Plan) -> dict[str, str]:
    """Example code and commands that connect to the cluster, by the program that they are for.

    They refer to the files with the secrets and contain no secret themselves.
    """
    directory = plan.directory
    ca, password = directory / "ca.pem", directory / f"{plan.user}.password"
    client = directory / "client.properties"
    return {
        "kwire": f"kwire topics list --command-config {client}",
        "Kafka's Java tools": (
            f"kafka-topics.sh --bootstrap-server {plan.bootstrap} --command-config {client} --list"
        ),
        "kafka-python": f"""\
from pathlib import Path
from kafka import KafkaProducer

producer = KafkaProducer(
    bootstrap_servers="{plan.bootstrap}".split(","),
    security_protocol="SASL_SSL",
    ssl_cafile="{ca}",
    sasl_mechanism="{MECHANISM}",
    sasl_plain_username="{plan.user}",
    sasl_plain_password=Path("{password}").read_text(),
)""",
        "librdkafka (confluent-kafka)": f"""\
from pathlib import Path
from confluent_kafka import Producer

producer = Producer({{
    "bootstrap.servers": "{plan.bootstrap}",
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "{ca}",
    "sasl.mechanism": "{MECHANISM}",
    "sasl.username": "{plan.user}",
    "sasl.password": Path("{password}").read_text(),
}})""",
        "Spark": f"""\
from pathlib import Path

password = Path("{password}").read_text()
login = f'{_LOGIN} required username="{plan.user}" password="{{password}}";'
secured = {{
    "kafka.bootstrap.servers": "{plan.bootstrap}",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "{MECHANISM}",
    "kafka.sasl.jaas.config": login,
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.certificates": Path("{ca}").read_text(),
}}
spark.read.format("kafka").options(**secured).option("subscribe", "TOPIC").load()""",
    }


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if is_address(host) and ":" in host else f"{host}:{port}"


def _text(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())
