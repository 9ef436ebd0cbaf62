"""A broker for a test whose clients log in, and may do what the test allows them.

Example::

    with KafkaSecured() as kafka:
        kafka.topic("orders")
        alice = kafka.user("alice", "WRITE topic:orders")
        Producer(alice.librdkafka).produce("orders", "first")

Rules:

- Clients log in at ``bootstrap`` with SCRAM-SHA-256. Nobody may do anything without an ACL.
- The helpers need no login and no rights: they use a listener of their own.
- There is no TLS: ``kwire secure-init`` makes certificates for tests that need some.
"""

import argparse
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from kwire.cli.acl_words import operations, resource
from kwire.metadata.acls import WILDCARD, Permission
from kwire.metadata.scram import salted
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kwire.testing.helpers import check
from kwire.testing.kafka import Kafka

MECHANISM = "SCRAM-SHA-256"
MECHANISM_NUMBER = 1
ITERATIONS = 4096
"""The fewest that Kafka allows."""

HELPERS, CLIENTS = "HELPERS", "CLIENTS"

SECURED_SETTINGS = {
    "listener.security.protocol.map": f"{HELPERS}:PLAINTEXT,{CLIENTS}:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISM,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class User(NamedTuple):
    """A user, with what a client needs to log in."""

    bootstrap: str
    name: str
    password: str

    @property
    def librdkafka(self) -> dict[str, Any]:
        """The settings for confluent-kafka and other clients of librdkafka."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": self.name,
            "sasl.password": self.password,
        }

    @property
    def kafka_python(self) -> dict[str, Any]:
        """The arguments for kafka-python and aiokafka."""
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": self.name,
            "sasl_plain_password": self.password,
        }


class KafkaSecured(Kafka):
    """A broker in a thread, with users and ACLs. ``settings`` are Kafka's, by name."""

    def __init__(self, settings: Mapping[str, object] | None = None, **options: Any) -> None:
        super().__init__(SECURED_SETTINGS | dict(settings or {}), **options)
        self._helpers_at = "127.0.0.1:0"

    def user(self, name: str, *rights: str, password: str | None = None) -> User:
        """Create a user, or give one more rights.

        A right is written as ``"READ,DESCRIBE topic:orders"``, ``"READ group:*"`` or ``"CREATE
        cluster"``: a name that ends with ``*`` is a prefix. The password, unless given, is the
        name. Raises ValueError for a right that can't be read, KafkaError if the broker refuses it.
        """
        acls = [acl for right in rights for acl in _acls(name, right)]
        user = User(self.bootstrap, name, name if password is None else password)
        self._set_password(user)
        if acls:
            request = CreateAclsRequest(creations=acls)
            answer = self._asker.ask(self._helpers_at, request, 3, CreateAclsResponse)
            for result in answer.results:
                check(result.error_code, f"rights of {name!r}: {result.error_message}")
        return user

    def _set_password(self, user: User) -> None:
        salt = os.urandom(16)
        credential = ScramCredentialUpsertion(
            name=user.name,
            mechanism=MECHANISM_NUMBER,
            iterations=ITERATIONS,
            salt=salt,
            salted_password=salted(MECHANISM, user.password.encode(), salt, ITERATIONS),
        )
        request = AlterUserScramCredentialsRequest(upsertions=[credential])
        answer = self._asker.ask(self._helpers_at, request, 0, AlterUserScramCredentialsResponse)
        for result in answer.results:
            check(result.error_code, f"user {user.name!r}: {result.error_message}")

    def _listeners(self, address: str) -> str:
        return f"{CLIENTS}://{address},{HELPERS}://{self._helpers_at}"

    def _bound(self, addresses: list[str]) -> None:
        self.bootstrap, self._helpers_at = addresses

    def _any_broker(self) -> str:
        return self._helpers_at

    def _leader(self, topic: str, index: int) -> str:
        return self._helpers_at

    def _coordinator(self, group: str) -> str:
        return self._helpers_at


def _acls(name: str, right: str) -> list[AclCreation]:
    """The ACLs of one right."""
    words = right.split()
    if len(words) != 2:
        raise ValueError(f'{right!r}: write a right as "READ topic:orders"')
    try:
        wanted, of = operations(words[0]), resource(words[1])
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from None
    return [
        AclCreation(
            resource_type=of.type,
            resource_name=of.name,
            resource_pattern_type=of.pattern,
            principal=f"User:{name}",
            host=WILDCARD,
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        for operation in wanted
    ]
