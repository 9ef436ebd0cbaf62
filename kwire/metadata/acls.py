"""Access control lists: their entries, Kafka's numbers, filters, and decisions about them; pure.

Rules:

- An ACL allows or denies one operation to one principal that connects from one host. It concerns
  the resources of one type whose names fit a pattern. The principal ``User:*`` means every
  principal, the host ``*`` every host, and the literal name ``*`` every resource of the type.
- An ACL has no id in kwire: two ACLs with equal fields are one ACL.
- The controller creates all ACLs of a request that are valid, in one commit, and deletes all that
  a request's filters match, in one commit.

Source: AclBinding, AclBindingFilter, ResourcePatternFilter, AclControlManager of Kafka.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

from kwire.errors import ErrorCode, KafkaError

WILDCARD = "*"
"""The host that means every host, and the literal name that means every resource of a type."""

EVERYBODY = "User:*"
"""The principal that means every principal."""

CLUSTER_NAME = "kafka-cluster"
"""The only name of a cluster resource."""

MOST_ACLS = 100_000
"""The most ACLs of a cluster."""

MOST_PER_REQUEST = 10_000
"""The most ACLs that one request may create or delete, as in Kafka."""

MOST_TEXT = 1000
"""The longest name, principal or host of an ACL, in characters; a topic's name has 249 at most."""


class _Number(IntEnum):
    """A number of the protocol. A number without a meaning is read as UNKNOWN, which is 0."""

    @classmethod
    def _missing_(cls, _value: object) -> "_Number":
        return cls(0)


class ResourceType(_Number):
    """The kind of resource that an ACL protects. The numbers are Kafka's."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Number):
    """How the name of an ACL is compared with that of a resource.

    The numbers are Kafka's. ANY and MATCH are for filters only.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Number):
    """An operation on a resource. The numbers are Kafka's."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Number):
    """Whether an ACL allows or denies. The numbers are Kafka's."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One ACL; the types are the numbers of the enumerations above."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


Acls: TypeAlias = Mapping[AclBinding, None]
"""A set of ACLs in the order of their creation."""

NO_ACLS: Acls = MappingProxyType({})


class AclsCreated(NamedTuple):
    """A change that adds ACLs; some of them may exist already."""

    acls: tuple[AclBinding, ...]


class AclsDeleted(NamedTuple):
    """A change that removes ACLs."""

    acls: tuple[AclBinding, ...]


class AclFilter(NamedTuple):
    """A filter for ACLs. None, and the type ANY, match everything.

    The pattern type MATCH matches all ACLs that apply to the resource ``name``: literal ones for
    the name or for ``*``, and prefixes of the name.
    """

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: AclBinding) -> bool:
        """Whether this ACL fits all fields of the filter."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._names(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _names(self, acl: AclBinding) -> bool:
        if self.pattern_type in (PatternType.ANY, acl.pattern_type):
            return self.name in (None, acl.name)
        if self.pattern_type != PatternType.MATCH:
            return False
        if self.name is None:
            return True
        if acl.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)


def check_binding(acl: AclBinding) -> None:
    """Raise KafkaError (INVALID_REQUEST) for an ACL that can't be created."""
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _refused(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise _refused("Invalid empty resource name")
    if ResourceType(acl.resource_type) <= ResourceType.ANY:
        raise _refused(f"Invalid resourceType {ResourceType(acl.resource_type).name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _refused(f"Invalid patternType {PatternType(acl.pattern_type).name}")
    if AclOperation(acl.operation) <= AclOperation.ANY:
        raise _refused(f"Invalid operation {AclOperation(acl.operation).name}")
    if Permission(acl.permission) <= Permission.ANY:
        raise _refused(f"Invalid permissionType {Permission(acl.permission).name}")
    if ":" not in acl.principal:
        raise _refused(
            f"Could not parse principal from `{acl.principal[:MOST_TEXT]}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    if max(len(acl.name), len(acl.principal), len(acl.host)) > MOST_TEXT:
        raise _refused(f"A name, principal or host has at most {MOST_TEXT} characters.")


def check_filter(wanted: AclFilter) -> None:
    """Raise KafkaError (INVALID_REQUEST) for a filter with numbers that stand for nothing."""
    if not ResourceType(wanted.resource_type) or not PatternType(wanted.pattern_type):
        raise _refused("Unknown patternFilter.")
    if not AclOperation(wanted.operation) or not Permission(wanted.permission):
        raise _refused("Unknown entryFilter.")


def created(acls: Acls, new: Sequence[AclBinding]) -> list[AclsCreated]:
    """The changes that create ``new`` ACLs: valid ones, no two of them equal, none of which exists.

    Raises KafkaError (POLICY_VIOLATION) for too many in one request or in the cluster.
    """
    if len(new) > MOST_PER_REQUEST:
        raise too_many()
    if len(acls) + len(new) > MOST_ACLS:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"The cluster holds at most {MOST_ACLS} ACLs.")
    return in_changes(AclsCreated, new)


def too_many() -> KafkaError:
    """The error for a request that creates or deletes more than ``MOST_PER_REQUEST`` ACLs."""
    return KafkaError(
        ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    )


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def apply_acls(acls: dict[AclBinding, None], change: AclsCreated | AclsDeleted) -> None:
    """Alter a set of ACLs as a change says."""
    if isinstance(change, AclsCreated):
        acls.update(dict.fromkeys(change.acls))
    else:
        for acl in change.acls:
            acls.pop(acl, None)


def size_of_acls(change: AclsCreated | AclsDeleted) -> int:
    """About how many bytes the texts of a change's ACLs take in a store."""
    return sum(40 + len(acl.name) + len(acl.principal) + len(acl.host) for acl in change.acls)


ACLS_PER_CHANGE = 200
"""The most ACLs in one change: between two changes, other tasks have their turn."""

_Kind = TypeVar("_Kind", AclsCreated, AclsDeleted)


def in_changes(kind: type[_Kind], acls: Iterable[AclBinding]) -> list[_Kind]:
    """Changes of a moderate size that create or delete these ACLs."""
    every = tuple(acls)
    return [
        kind(every[start : start + ACLS_PER_CHANGE])
        for start in range(0, len(every), ACLS_PER_CHANGE)
    ]


def bindings_from_json(rows: Iterable[Iterable[object]]) -> tuple[AclBinding, ...]:
    """The ACLs of a stored change; ValueError or TypeError for anything else."""
    return tuple(_binding(*row) for row in rows)


def _binding(kind: object, name: object, pattern: object, *rest: object) -> AclBinding:
    principal, host, operation, permission = rest
    texts, numbers = (name, principal, host), (kind, pattern, operation, permission)
    if not all(isinstance(one, str) for one in texts):
        raise TypeError("an ACL's name, principal and host are texts")
    if not all(isinstance(one, int) for one in numbers):
        raise TypeError("an ACL's types are numbers")
    return AclBinding(kind, name, pattern, principal, host, operation, permission)  # type: ignore[arg-type]
