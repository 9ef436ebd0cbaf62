"""What each API answers a client that may do nothing, only describe, or what the API needs.

The cases are Apache Kafka's behavior, and run against both brokers. The broker has Kafka's
authorizer with ``allow.everyone.if.no.acl.found``. The admin's requests come from 127.0.0.1, and an
ACL lets this host do everything. Each client has another loopback address: all are User:ANONYMOUS,
so that no login is needed.
"""

import uuid
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from itertools import count
from typing import Any, NamedTuple

from compat_tests.raw_client import RawConnection
from kwire.errors import ErrorCode
from kwire.metadata.acls import CLUSTER_NAME, AclOperation, PatternType, Permission, ResourceType
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.types import Message, Request

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}

ADMIN = "127.0.0.1"

T, G, C, X = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
R, W, D = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE

NO_TOPIC = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED})
NO_GROUP = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED})
NO_CLUSTER = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
NO_ID = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
NONE: frozenset[ErrorCode] = frozenset()
AUTHORIZATION = NO_TOPIC | NO_GROUP | NO_CLUSTER | NO_ID

Right = tuple[ResourceType, AclOperation]


class Things(NamedTuple):
    """What a case is about: a topic that exists, one that doesn't, a group, a transactional id."""

    topic: str
    topic_id: bytes
    missing: str
    group: str
    transactional_id: str

    def named(self, kind: ResourceType) -> list[str]:
        """The resources of a type."""
        names = {
            T: [self.topic, self.missing],
            G: [self.group],
            C: [CLUSTER_NAME],
            X: [self.transactional_id],
        }
        return names[kind]


class Case(NamedTuple):
    """A request, the rights that it needs, and the errors without any and with DESCRIBE only."""

    name: str
    request: Callable[[Things], Request]
    version: int
    needs: tuple[Right, ...]
    denied: frozenset[ErrorCode]
    described: frozenset[ErrorCode]
    given: tuple[Right, ...] = ()
    """What the client has from the beginning."""

    def __str__(self) -> str:
        return self.name


class Client:
    """A client with an address of its own, so that it has no rights at first."""

    _addresses = count(2)

    def __init__(self, admin: "Admin", bootstrap: str) -> None:
        self.host = str(IPv4Address("127.0.1.0") + next(self._addresses))
        self._admin = admin
        self._connection = RawConnection(bootstrap, self.host)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def allow(self, things: Things, *rights: Right) -> None:
        """Allow the client something on things."""
        named = [(kind, name, right) for kind, right in rights for name in things.named(kind)]
        self._admin.allow(self.host, named)

    def ask(self, request: Request, version: int) -> Any:
        """The answer to a request, which may have fields of other versions."""
        blank = type(request)()
        for field in type(request).FIELDS:
            if not field.since <= version <= field.until:
                setattr(request, field.name, getattr(blank, field.name))
        return self._connection.ask(request, version)

    def errors(self, case: Case, things: Things) -> frozenset[ErrorCode]:
        """The errors of authorization in the answer to a case's request."""
        return frozenset(codes(self.ask(case.request(things), case.version))) & AUTHORIZATION


class Admin:
    """The admin of one broker, who may do everything."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._connection = RawConnection(bootstrap, ADMIN)
        everything = [(T, "*"), (G, "*"), (X, "*"), (C, CLUSTER_NAME)]
        self.allow(ADMIN, [(kind, name, AclOperation.ALL) for kind, name in everything])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, request: Request, version: int) -> Any:
        """The answer to a request."""
        return self._connection.ask(request, version)

    def things(self) -> Things:
        """Things that no other case has."""
        part = uuid.uuid4().hex[:10]
        names = [f"{kind}-{part}" for kind in ("t", "missing", "g", "x")]
        topic, missing, group, transactional_id = names
        new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        created = self.ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 7)
        assert not created.topics[0].error_code, created
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        [found] = self.ask(asked, 12).topics
        while found.error_code:  # Kafka's brokers hear of a topic a little later
            [found] = self.ask(asked, 12).topics
        return Things(topic, found.topic_id, missing, group, transactional_id)

    def find_coordinator(self, key: str, key_type: int = 0) -> None:
        """Have the coordinator be there; Kafka's needs a moment."""
        self.ask(FindCoordinatorRequest(key=key, key_type=key_type), 3)

    def allow(
        self,
        host: str,
        rights: list[tuple[ResourceType, str, AclOperation]],
        pattern: PatternType = PatternType.LITERAL,
        permission: Permission = Permission.ALLOW,
    ) -> None:
        """Allow the clients of a host something, or deny it."""
        creations = [
            AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal="User:ANONYMOUS",
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for kind, name, operation in rights
        ]
        answer = self.ask(CreateAclsRequest(creations=creations), 3)
        assert not any(result.error_code for result in answer.results), answer


def codes(answer: Any) -> Iterator[ErrorCode]:
    """Every error code in a response, wherever it is."""
    if isinstance(answer, list):
        for element in answer:
            yield from codes(element)
    elif isinstance(answer, Message):
        for field in type(answer).FIELDS:
            value = getattr(answer, field.name)
            if field.name.endswith("error_code"):
                yield ErrorCode(value)
            else:
                yield from codes(value)


def check(case: Case, admin: Admin, tries: int = 1) -> None:
    """A case as a whole: nothing allowed, only described, and allowed what it needs.

    Kafka's brokers hear of an ACL after it was created: there, several ``tries`` are needed.
    """
    for rights, expected in (
        ((), case.denied),
        (((T, D), (G, D), (X, D), (C, D)), case.described),
        (case.needs, NONE),
    ):
        client, things = Client(admin, admin.bootstrap), admin.things()
        try:
            client.allow(things, *case.given, *rights)
            errors = client.errors(case, things)
            for _ in range(tries - 1):
                if errors != expected:
                    errors = client.errors(case, things)
            assert errors == expected, rights
        finally:
            client.close()
