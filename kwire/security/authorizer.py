"""Kafka's StandardAuthorizer: may this principal, from this host, do this to that resource? Pure.

Rules:

- A super user may do everything. For all other principals, the ACLs of three kinds of patterns
  apply to a resource: its literal name, every prefix of its name, and the literal name ``*``.
- One ACL that denies outweighs all ACLs that allow. If no ACL at all applies to the resource,
  ``allow.everyone.if.no.acl.found`` decides; otherwise an operation that no ACL allows is denied.
- A principal that is allowed READ, WRITE, DELETE or ALTER is also allowed DESCRIBE, and one that is
  allowed ALTER_CONFIGS is also allowed DESCRIBE_CONFIGS. A denial covers its own operation only.
- The authorizer caches its answers by principal and host, until the next change of ACLs. So the
  check of a produced record costs two look-ups in dicts. The cache is bounded: a client that asks
  for more and more names pushes out its own answers first.

Source: StandardAuthorizerData, Authorizer.authorizeByResourceType of Kafka.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

from kwire.clock import steady_clock_ms
from kwire.config.authorizer import AuthorizerSettings
from kwire.metadata.acls import (
    CLUSTER_NAME,
    EVERYBODY,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclsCreated,
    AclsDeleted,
    PatternType,
    Permission,
    ResourceType,
)
from kwire.security.audit_limits import AuditLimits
from kwire.security.principal import Principal

ANSWERS_PER_CLIENT = 2000
MOST_ANSWERS = 100_000
LONGEST_KEPT = 256
"""Answers about longer names aren't cached: a client may ask for more and more names of 32 KB
each."""

_SUPPORTED: dict[int, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE),
        *(AclOperation.ALTER, AclOperation.DESCRIBE),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    ),
    ResourceType.GROUP: (
        *(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    ),
    ResourceType.CLUSTER: (
        *(AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE),
        *(AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS),
        *(AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE),
    ),
}
"""The operations that responses may list for a resource, as in AclEntry.supportedOperations."""

_IMPLY = {
    AclOperation.DESCRIBE: frozenset(
        (
            *(AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE),
            *(AclOperation.DELETE, AclOperation.ALTER),
        )
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
    ),
}

_HARDCODE = "hardcode"
"""The resource name with which Kafka tests whether a principal may do everything."""


class Client(Protocol):
    """The client of a connection, as far as the authorizer needs to know it."""

    @property
    def principal(self) -> Principal:
        """The principal that the client has authenticated as."""

    @property
    def peer_host(self) -> str:
        """The client's IP address."""


class Rule(NamedTuple):
    """An answer of the authorizer, and its reason as the audit log prints it."""

    is_allowed: bool
    reason: str


SUPER_USER = Rule(is_allowed=True, reason="SuperUser")
DEFAULT_ALLOW = Rule(is_allowed=True, reason="DefaultAllow")
DEFAULT_DENY = Rule(is_allowed=False, reason="DefaultDeny")

Pattern: TypeAlias = tuple[int, int, str]
"""Resource type, pattern type and name."""

_Question: TypeAlias = tuple[int, int, str]
"""Operation, resource type and name."""


class _Patterns(NamedTuple):
    """The resource patterns of some ACLs: literal names and prefixes."""

    literals: frozenset[str]
    prefixes: tuple[str, ...]

    def among(self, names: frozenset[str]) -> frozenset[str]:
        """Return the names that match one of the patterns."""
        if WILDCARD in self.literals:
            return names
        found = names & self.literals
        if not self.prefixes:
            return found
        prefixes = self.prefixes
        return found.union(name for name in names if name.startswith(prefixes))


class Authorizer:
    """Decides by ``super_users``, texts like ``User:admin``, and by the ACLs given so far.

    ``denials`` and ``permissions`` limit the lines of the audit log. ``notes_allowed`` says whether
    it wants permissions too: what needn't be told is checked in one step.
    """

    def __init__(
        self,
        super_users: Iterable[str] = (),
        acls: Iterable[AclBinding] = (),
        *,
        allows_without_acl: bool = False,
        steady_ms: Callable[[], int] = steady_clock_ms,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._without_acl = DEFAULT_ALLOW if allows_without_acl else DEFAULT_DENY
        self._by_pattern: dict[Pattern, dict[str, dict[AclBinding, None]]] = {}
        self._by_principal: defaultdict[tuple[int, str], dict[AclBinding, None]] = defaultdict(dict)
        self._prefix_lengths: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._answers: dict[tuple[Principal, str], dict[_Question, Rule]] = {}
        self._count = 0
        self.denials = AuditLimits("denials", steady_ms=steady_ms)
        self.permissions = AuditLimits("permissions", logging.DEBUG, steady_ms)
        self.notes_allowed = False
        for acl in acls:
            self._add(acl)

    @classmethod
    def of(
        cls,
        wanted: AuthorizerSettings,
        acls: Iterable[AclBinding],
        steady_ms: Callable[[], int] = steady_clock_ms,
    ) -> "Authorizer":
        """Make the authorizer for these settings and ACLs."""
        allows = wanted.allows_without_acl
        return cls(wanted.super_users, acls, allows_without_acl=allows, steady_ms=steady_ms)

    @property
    def kept_answers(self) -> int:
        """How many answers are kept."""
        return sum(map(len, self._answers.values()))

    @property
    def index_size(self) -> int:
        """How many entries its indexes of ACLs have, 0 without ACLs."""
        lengths = sum(map(len, self._prefix_lengths.values()))
        return len(self._by_pattern) + len(self._by_principal) + lengths

    def apply(self, change: AclsCreated | AclsDeleted) -> list[dict[_Question, Rule]]:
        """Add or remove ACLs; all later answers take the change into account.

        Returns the cached answers that are outdated now. The caller frees them a few at a time.
        """
        alter = self._add if isinstance(change, AclsCreated) else self._remove
        for acl in change.acls:
            alter(acl)
        forgotten, self._answers = list(self._answers.values()), {}
        self._count = 0
        return forgotten

    def allows(self, client: Client, operation: int, resource_type: int, name: str) -> bool:
        """Whether the client may do this to the resource of this name."""
        answers = self._answers.get((client.principal, client.peer_host))
        rule = None if answers is None else answers.get((operation, resource_type, name))
        if rule is None:
            rule = self.rule(client, operation, resource_type, name)
        return rule.is_allowed

    def rule(self, client: Client, operation: int, resource_type: int, name: str) -> Rule:
        """The same answer as ``allows`` gives, with its reason."""
        question = operation, resource_type, name
        rule = self._answers.get((client.principal, client.peer_host), {}).get(question)
        if rule is None:
            rule = self._find_answer(client, operation, resource_type, name)
            self._cache_answer(client, question, rule)
        return rule

    def allows_somewhere(self, client: Client, operation: int, resource_type: int) -> bool:
        """Whether the client may do this to at least one resource of a type
        (authorizeByResourceType).
        """
        question = operation, -resource_type, ""  # a client may ask about an empty name too
        rule = self._answers.get((client.principal, client.peer_host), {}).get(question)
        if rule is None:
            is_allowed = self.allows(client, operation, resource_type, _HARDCODE)
            is_allowed = is_allowed or self._allowed_by_an_acl(client, operation, resource_type)
            rule = Rule(is_allowed, "ResourceType")
            self._cache_answer(client, question, rule)
        return rule.is_allowed

    def allowed_names(
        self, client: Client, operation: int, resource_type: int, names: frozenset[str]
    ) -> frozenset[str]:
        """Return the names of resources to which the client may do this. The cache is not used.

        This reads each ACL of the client once. Then a name costs a fraction of a microsecond.
        """
        if str(client.principal) in self._super_users:
            return names
        if self._without_acl.is_allowed:  # then the ACLs of other principals count, too
            return frozenset(
                name
                for name in names
                if self._find_answer(client, operation, resource_type, name).is_allowed
            )
        allowed = self._patterns(client, operation, resource_type, Permission.ALLOW)
        denied = self._patterns(client, operation, resource_type, Permission.DENY)
        return allowed.among(names) - denied.among(names)

    def _patterns(
        self, client: Client, operation: int, resource_type: int, permission: Permission
    ) -> "_Patterns":
        """The patterns of all ACLs that have this permission, apply to the client and cover the
        operation.
        """
        acls = [
            acl
            for one in (str(client.principal), EVERYBODY)
            for acl in self._by_principal.get((resource_type, one), ())
            if acl.permission == permission
            and acl.host in (WILDCARD, client.peer_host)
            and _means(acl, operation)
        ]
        return _Patterns(
            frozenset(acl.name for acl in acls if acl.pattern_type == PatternType.LITERAL),
            tuple({acl.name for acl in acls if acl.pattern_type == PatternType.PREFIXED}),
        )

    def operations(self, client: Client, resource_type: int, name: str) -> int:
        """The operations that the client may do to a resource, as a bit field: bit n is operation
        number n.
        """
        return sum(
            1 << operation
            for operation in _SUPPORTED[resource_type]
            if self.allows(client, operation, resource_type, name)
        )

    def allows_on_cluster(self, client: Client, operation: int) -> bool:
        """Whether the client may do this to the cluster."""
        return self.allows(client, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def _add(self, acl: AclBinding) -> None:
        pattern = acl.resource_type, acl.pattern_type, acl.name
        if pattern not in self._by_pattern:
            self._by_pattern[pattern] = {}
            if acl.pattern_type == PatternType.PREFIXED:
                self._prefix_lengths[acl.resource_type][len(acl.name)] += 1
        self._by_pattern[pattern].setdefault(acl.principal, {})[acl] = None
        self._by_principal[acl.resource_type, acl.principal][acl] = None

    def _remove(self, acl: AclBinding) -> None:
        pattern = acl.resource_type, acl.pattern_type, acl.name
        principals = self._by_pattern.get(pattern, {})
        if acl not in principals.get(acl.principal, {}):
            return
        del (
            principals[acl.principal][acl],
            self._by_principal[acl.resource_type, acl.principal][acl],
        )
        if not self._by_principal[acl.resource_type, acl.principal]:
            del self._by_principal[acl.resource_type, acl.principal]
        if not principals[acl.principal]:
            del principals[acl.principal]
        if not principals:
            del self._by_pattern[pattern]
            if acl.pattern_type == PatternType.PREFIXED:
                lengths = self._prefix_lengths[acl.resource_type]
                lengths[len(acl.name)] -= 1
                if not lengths[len(acl.name)]:
                    del lengths[len(acl.name)]

    def _cache_answer(self, client: Client, question: _Question, rule: Rule) -> None:
        """Cache an answer. If the cache is full, drop other answers."""
        if len(question[2]) > LONGEST_KEPT:
            return
        if self._count >= MOST_ANSWERS:
            oldest = next(iter(self._answers))
            self._count -= len(self._answers.pop(oldest))
        answers = self._answers.setdefault((client.principal, client.peer_host), {})
        if len(answers) >= ANSWERS_PER_CLIENT:
            self._count -= len(answers)
            answers.clear()
        answers[question] = rule
        self._count += 1

    def _find_answer(self, client: Client, operation: int, resource_type: int, name: str) -> Rule:
        principal = str(client.principal)
        if principal in self._super_users:
            return SUPER_USER
        allowing = None
        has_acls = False
        for principals in self._naming(resource_type, name):
            has_acls = True
            for one in (principal, EVERYBODY):
                for acl in principals.get(one, ()):
                    if acl.host not in (WILDCARD, client.peer_host) or not _means(acl, operation):
                        continue
                    if acl.permission == Permission.DENY:
                        return Rule(is_allowed=False, reason=_acl_text(acl))
                    allowing = allowing or acl
        if allowing is not None:
            return Rule(is_allowed=True, reason=_acl_text(allowing))
        return DEFAULT_DENY if has_acls else self._without_acl

    def _naming(self, resource_type: int, name: str) -> Iterator[dict[str, dict[AclBinding, None]]]:
        """The ACLs of every pattern that matches a resource, by principal."""
        by_pattern = self._by_pattern
        literal = by_pattern.get((resource_type, PatternType.LITERAL, name))
        if literal is not None:
            yield literal
        for length in self._prefix_lengths.get(resource_type, ()):
            prefixed = by_pattern.get((resource_type, PatternType.PREFIXED, name[:length]))
            if prefixed is not None and length <= len(name):
                yield prefixed
        every = by_pattern.get((resource_type, PatternType.LITERAL, WILDCARD))
        if every is not None and name != WILDCARD:
            yield every

    def _allowed_by_an_acl(self, client: Client, operation: int, resource_type: int) -> bool:
        """Whether an ACL allows the operation for some name, and no denial covers all of these
        names.
        """
        allowed: set[tuple[int, str]] = set()
        denied: set[tuple[int, str]] = set()
        for one in (str(client.principal), EVERYBODY):
            for acl in self._by_principal.get((resource_type, one), ()):
                if acl.host not in (WILDCARD, client.peer_host):
                    continue
                if acl.operation in (operation, AclOperation.ALL):
                    found = denied if acl.permission == Permission.DENY else allowed
                    found.add((acl.pattern_type, acl.name))
        everything = PatternType.LITERAL, WILDCARD
        if everything in denied:
            return False
        return everything in allowed or any(
            pattern not in denied
            and not any(
                (PatternType.PREFIXED, pattern[1][:length]) in denied
                for length in range(1, len(pattern[1]) + 1)
            )
            for pattern in allowed
        )


def _means(acl: AclBinding, operation: int) -> bool:
    """Whether an ACL covers an operation, directly or because another operation implies it."""
    if acl.operation in (AclOperation.ALL, operation):
        return True
    if acl.permission == Permission.DENY or operation not in _IMPLY:
        return False
    return acl.operation in _IMPLY[AclOperation(operation)]


def _acl_text(acl: AclBinding) -> str:
    """An ACL, written as Kafka's audit log prints it."""
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={ResourceType(acl.resource_type).name}, "
        f"resourceName={acl.name}, patternType={PatternType(acl.pattern_type).name}, "
        f"principal={acl.principal}, host={acl.host}, "
        f"operation={AclOperation(acl.operation).name}, "
        f"permissionType={Permission(acl.permission).name}))"
    )
