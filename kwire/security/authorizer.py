"""Kafka's StandardAuthorizer: may this principal, from this host, do this to that resource? Pure.

Rules:

- A super user may do everything. For everybody else the ACLs of all patterns that name the resource
  count: its literal name, each prefix of it, and the literal name ``*``.
- An ACL that denies counts before all that allow. If no ACL names the resource at all,
  ``allow.everyone.if.no.acl.found`` decides; otherwise what nobody allows is denied.
- To be allowed READ, WRITE, DELETE or ALTER implies DESCRIBE, and ALTER_CONFIGS implies
  DESCRIBE_CONFIGS. To be denied implies nothing.
- Answers are kept for each principal and host until an ACL changes, so that a check on the way of a
  record is two look-ups. Their number is bounded: a client that asks for ever new names makes its
  own answers be forgotten first.

Source: StandardAuthorizerData, Authorizer.authorizeByResourceType of Kafka.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

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
from kwire.security.denials import Denials
from kwire.security.principal import Principal

ANSWERS_PER_CLIENT = 2000
MOST_ANSWERS = 100_000
LONGEST_KEPT = 256
"""Answers about longer names aren't kept: a client may ask about 32 KB, ever others."""

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
"""The operations that responses tell about, as AclEntry.supportedOperations has them."""

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
"""A name that Kafka asks about to find out whether a principal may do everything."""


class Client(Protocol):
    """Who asks, as a connection knows it."""

    @property
    def principal(self) -> Principal:
        """Who the client is."""

    @property
    def peer_host(self) -> str:
        """The client's address."""


class Rule(NamedTuple):
    """An answer, and the text of its reason in the audit log."""

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
    """Literal names and prefixes."""

    literals: frozenset[str]
    prefixes: tuple[str, ...]

    def among(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the names that a pattern names."""
        if WILDCARD in self.literals:
            return names
        found = names & self.literals
        if not self.prefixes:
            return found
        prefixes = self.prefixes
        return found.union(name for name in names if name.startswith(prefixes))


class Authorizer:
    """Answers by the ACLs that it was told of. ``super_users`` are texts as ``User:admin``.

    ``denials`` bounds the lines of the audit log.
    """

    def __init__(
        self,
        super_users: Iterable[str] = (),
        acls: Iterable[AclBinding] = (),
        *,
        allows_without_acl: bool = False,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._without_acl = DEFAULT_ALLOW if allows_without_acl else DEFAULT_DENY
        self._by_pattern: dict[Pattern, dict[str, dict[AclBinding, None]]] = {}
        self._by_principal: defaultdict[tuple[int, str], dict[AclBinding, None]] = defaultdict(dict)
        self._prefix_lengths: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._answers: dict[tuple[Principal, str], dict[_Question, Rule]] = {}
        self._count = 0
        self.denials = Denials()
        for acl in acls:
            self._add(acl)

    @classmethod
    def of(cls, wanted: AuthorizerSettings, acls: Iterable[AclBinding]) -> "Authorizer":
        """The authorizer of these settings and ACLs."""
        return cls(wanted.super_users, acls, allows_without_acl=wanted.allows_without_acl)

    def apply(self, change: AclsCreated | AclsDeleted) -> list[dict[_Question, Rule]]:
        """Take a change of ACLs; it counts from now on.

        Returns the answers that count no longer, for the caller to free them a few at a time.
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
        """The answer to ``allows``, with its reason."""
        question = operation, resource_type, name
        rule = self._answers.get((client.principal, client.peer_host), {}).get(question)
        if rule is None:
            rule = self._find(client, operation, resource_type, name)
            self._keep(client, question, rule)
        return rule

    def allows_somewhere(self, client: Client, operation: int, resource_type: int) -> bool:
        """Whether the client may do this to any resource of a type (authorizeByResourceType)."""
        question = operation, -resource_type, ""  # a client may ask about an empty name too
        rule = self._answers.get((client.principal, client.peer_host), {}).get(question)
        if rule is None:
            is_allowed = self.allows(client, operation, resource_type, _HARDCODE)
            is_allowed = is_allowed or self._allowed_by_an_acl(client, operation, resource_type)
            rule = Rule(is_allowed, "ResourceType")
            self._keep(client, question, rule)
        return rule.is_allowed

    def allowed_names(
        self, client: Client, operation: int, resource_type: int, names: frozenset[str]
    ) -> frozenset[str]:
        """Those of the names to which the client may do this; nothing of it is kept.

        It looks at each ACL of the client once, and costs a fraction of a microsecond a name.
        """
        if str(client.principal) in self._super_users:
            return names
        if self._without_acl.is_allowed:  # who else has ACLs counts too
            return frozenset(
                name
                for name in names
                if self._find(client, operation, resource_type, name).is_allowed
            )
        allowed = self._patterns(client, operation, resource_type, Permission.ALLOW)
        denied = self._patterns(client, operation, resource_type, Permission.DENY)
        return allowed.among(names) - denied.among(names)

    def _patterns(
        self, client: Client, operation: int, resource_type: int, permission: Permission
    ) -> "_Patterns":
        """What the ACLs with this permission name that are about the client and an operation."""
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
        """The operations that the client may do to a resource, a bit for each number."""
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

    def _keep(self, client: Client, question: _Question, rule: Rule) -> None:
        """Keep an answer; where there are too many, others are forgotten."""
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

    def _find(self, client: Client, operation: int, resource_type: int, name: str) -> Rule:
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
                        return Rule(is_allowed=False, reason=_told(acl))
                    allowing = allowing or acl
        if allowing is not None:
            return Rule(is_allowed=True, reason=_told(allowing))
        return DEFAULT_DENY if has_acls else self._without_acl

    def _naming(self, resource_type: int, name: str) -> Iterator[dict[str, dict[AclBinding, None]]]:
        """The ACLs of each pattern that names a resource, by principal."""
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
        """Whether an ACL allows this for some name, and none denies it for all those names."""
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
    """Whether an ACL is about an operation, perhaps by implication."""
    if acl.operation in (AclOperation.ALL, operation):
        return True
    if acl.permission == Permission.DENY or operation not in _IMPLY:
        return False
    return acl.operation in _IMPLY[AclOperation(operation)]


def _told(acl: AclBinding) -> str:
    """The rule of an ACL, as Kafka's audit log prints it."""
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={ResourceType(acl.resource_type).name}, "
        f"resourceName={acl.name}, patternType={PatternType(acl.pattern_type).name}, "
        f"principal={acl.principal}, host={acl.host}, "
        f"operation={AclOperation(acl.operation).name}, "
        f"permissionType={Permission(acl.permission).name}))"
    )
