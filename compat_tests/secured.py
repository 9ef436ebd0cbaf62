"""A broker whose listeners have TLS and logins, and what clients need for them.

It is a kwire, or with ``KWIRE_SECURED=kafka`` an Apache Kafka with the same settings.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from aiokafka.helpers import create_ssl_context
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from compat_tests.apache_kafka import ApacheKafka
from compat_tests.bearer_tokens import LIFE_S, LINE, ForAiokafka, ForKafkaPython, Issuer
from kwire.testing.process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.ports import free_port

LOGIN = "KWIRE_COMPAT_LOGIN"
"""The variable that tells processes of tests librdkafka's settings, as JSON; it may be missing."""

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # on the PLAINTEXT listener, where users and ACLs are made
    "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
}
"""Settings of a broker where alice, however she has logged in, may do what ACLs allow."""

USER, PASSWORD = "alice", "alice-secret"
PROTOCOLS = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MODULES = "org.apache.kafka.common.security"
PLAIN_LINE = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
SCRAM_LINE = f"{_MODULES}.scram.ScramLoginModule required;"


class SecuredBroker:
    """The addresses of a broker by protocol, and the files of its clients.

    ``log`` gives what a kwire has logged so far; an Apache Kafka has None.
    """

    def __init__(self, directory: Path) -> None:
        self.log: Callable[[], str] | None = None
        self.authority = authority = Authority()
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_text(authority.certificate_pem)
        self._server_file = authority.sign("server").write_pem(directory / "server.pem")
        client = authority.sign(USER)
        self.key_file = directory / "client.key"
        self.key_file.write_text(client.key_pem())
        self.certificate_file = directory / "client.crt"
        self.certificate_file.write_text(client.certificate_pem)
        self.issuer = Issuer(directory, USER)
        self.bootstrap = {name: f"127.0.0.1:{free_port()}" for name in PROTOCOLS}

    def java(self, protocol: str, mechanism: str) -> str:
        """The file with the settings of a Java client of alice, over TLS."""
        if protocol == "SSL":
            keys = self.ca_file.with_name("client.pem")
            keys.write_text(self.key_file.read_text() + self.certificate_file.read_text())
            return self._java_file(
                {
                    "security.protocol": "SSL",
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.location": str(keys),
                }
            )
        if mechanism == "OAUTHBEARER":
            return self.tool(LINE, mechanism, self.issuer.java())
        module = f"{_MODULES}.plain.Plain" if mechanism == "PLAIN" else f"{_MODULES}.scram.Scram"
        login = f'{module}LoginModule required username="{USER}" password="{PASSWORD}";'
        return self.tool(login, mechanism)

    def tool(
        self, login: str, mechanism: str, further: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        """The file with the settings of a Java client with this JAAS line, over SASL_SSL."""
        return self._java_file(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": login,
                **further,
            }
        )

    def _java_file(self, settings: Mapping[str, str]) -> str:
        lines = [f"{name}={value}" for name, value in settings.items()]
        lines += [
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.ca_file}",
        ]
        path = self.ca_file.with_name(f"client-{uuid.uuid4().hex}.properties")
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def settings(self) -> dict[str, str]:
        """Kafka's settings for its listeners."""
        lines = {"plain": PLAIN_LINE, "scram-sha-256": SCRAM_LINE, "scram-sha-512": SCRAM_LINE}
        return {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._server_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "listener.name.ssl.ssl.client.auth": "required",
            **{
                f"listener.name.{listener}.{mechanism}.sasl.jaas.config": line
                for listener in ("sasl_plaintext", "sasl_ssl")
                for mechanism, line in lines.items()
            },
            **self.issuer.listener_settings("sasl_plaintext"),
            **self.issuer.listener_settings("sasl_ssl"),
        }

    def kafka_python(
        self, protocol: str, mechanism: str, password: str = PASSWORD
    ) -> dict[str, Any]:
        """The settings of a client of kafka-python."""
        given: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap[protocol],
            "security_protocol": protocol,
        }
        if protocol.endswith("SSL"):
            given["ssl_cafile"] = str(self.ca_file)
        if protocol == "SSL":
            given |= {"ssl_certfile": str(self.certificate_file), "ssl_keyfile": str(self.key_file)}
        elif mechanism == "OAUTHBEARER":
            token = ForKafkaPython(self.token(password))
            given |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": token}
        else:
            login = {"sasl_plain_username": USER, "sasl_plain_password": password}
            given |= {"sasl_mechanism": mechanism, **login}
        return given

    def token(self, password: str = PASSWORD) -> str:
        """A token of alice; with a wrong password one that is for somebody else."""
        return self.issuer.token() if password == PASSWORD else self.issuer.token(aud="other")

    def aiokafka(self, protocol: str, mechanism: str) -> dict[str, Any]:
        """The settings of a client of aiokafka."""
        given = self.kafka_python(protocol, mechanism)
        files = {name: given.pop(f"ssl_{name}", None) for name in ("cafile", "certfile", "keyfile")}
        if protocol.endswith("SSL"):
            given["ssl_context"] = create_ssl_context(**files)
        if mechanism == "OAUTHBEARER":
            given["sasl_oauth_token_provider"] = ForAiokafka(self.token())
        return given

    def librdkafka(self, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        """The settings of a client of confluent-kafka."""
        given: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap[protocol],
            "security.protocol": protocol,
        }
        if protocol.endswith("SSL"):
            given["ssl.ca.location"] = str(self.ca_file)
        if protocol == "SSL":
            given["ssl.certificate.location"] = str(self.certificate_file)
            given["ssl.key.location"] = str(self.key_file)
        elif mechanism == "OAUTHBEARER":
            token = self.token(password), time.time() + LIFE_S
            given |= {"sasl.mechanism": mechanism, "oauth_cb": lambda _: token}
        else:
            login = {"sasl.username": USER, "sasl.password": password}
            given |= {"sasl.mechanism": mechanism, **login}
        return given


def create_users(plain: str) -> None:
    """Give alice her password for both mechanisms of SCRAM; ``plain`` is a listener of admins."""
    admin = AdminClient({"bootstrap.servers": plain})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        wanted = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([wanted])[USER].result(30)


def allow(plain: str, rights: Iterable[tuple[ResourceType, str, AclOperation]]) -> None:
    """Allow alice something on resources whose names begin so."""
    admin = AdminClient({"bootstrap.servers": plain})
    acls = [
        AclBinding(
            kind,
            prefix,
            ResourcePatternType.PREFIXED,
            f"User:{USER}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for kind, prefix, operation in rights
    ]
    for made in admin.create_acls(acls).values():
        made.result(30)


@contextmanager
def secured_broker(
    directory: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[SecuredBroker, str]]:
    """A running broker with further settings, and the address of its PLAINTEXT listener."""
    secured = SecuredBroker(directory)
    every = {**secured.settings(), **settings}
    with patch.dict(os.environ, secured.issuer.environment):
        if os.environ.get("KWIRE_SECURED") == "kafka":
            with _apache_kafka(directory, secured, every) as kafka:
                yield secured, kafka.bootstrap
            return
        options = []
        for name, address in secured.bootstrap.items():
            options += ["--listen", f"{name}://{address}"]
        with BrokerProcess(directory / "data", every, options=options) as kwire:
            secured.log = kwire.log
            yield secured, kwire.bootstrap.split(",")[0]
            log = kwire.log()
    assert "bug in" not in log, log
    assert PASSWORD not in log


def _apache_kafka(
    directory: Path, secured: SecuredBroker, settings: Mapping[str, str]
) -> ApacheKafka:
    kafka = ApacheKafka(directory / "data")
    listeners = [f"PLAINTEXT://{kafka.bootstrap}"]
    listeners += [f"{name}://{address}" for name, address in secured.bootstrap.items()]
    kafka.settings = {
        **settings,
        "listeners": ",".join([*listeners, f"CONTROLLER://{kafka.controller}"]),
        "advertised.listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(
            [f"{name}:{name}" for name in ("PLAINTEXT", *PROTOCOLS)] + ["CONTROLLER:PLAINTEXT"]
        ),
    }
    return kafka
