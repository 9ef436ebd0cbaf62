"""The authorizer gives StandardAuthorizer's answers, fast, with bounded memory."""

import random
import sys
from typing import NamedTuple

import pytest

from kwire.metadata.acls import (
    AclBinding,
    AclOperation,
    AclsCreated,
    AclsDeleted,
    PatternType,
    Permission,
    ResourceType,
)
from kwire.security import authorizer as module
from kwire.security.authorizer import Authorizer
from kwire.security.principal import Principal

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALL, ALTER_CONFIGS = AclOperation.ALL, AclOperation.ALTER_CONFIGS
DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


class Client(NamedTuple):
    """A client, as the authorizer sees it."""

    principal: Principal
    peer_host: str = "10.0.0.1"


ALICE = Client(Principal("User", "alice"))
BOB = Client(Principal("User", "bob"))


def acl(name, operation=READ, permission=ALLOW, pattern=LITERAL, who="User:alice", host="*"):
    """An ACL of a topic."""
    return AclBinding(TOPIC, name, pattern, who, host, operation, permission)


def allows(acls, name="orders", operation=READ, client=ALICE, **how):
    """What an authorizer with these ACLs says about a topic."""
    return Authorizer((), acls, **how).allows(client, operation, TOPIC, name)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("orders")], True),
        ([acl("order")], False),
        ([acl("*")], True),
        ([acl("ord", pattern=PREFIXED)], True),
        ([acl("orders", pattern=PREFIXED)], True),
        ([acl("orders.eu", pattern=PREFIXED)], False),
        ([acl("orders", WRITE)], False),
        ([acl("orders", ALL)], True),
        ([acl("orders", who="User:*")], True),
        ([acl("orders", who="User:bob")], False),
        ([acl("orders", who="Group:alice")], False),
        ([acl("orders", host="10.0.0.1")], True),
        ([acl("orders", host="10.0.0.2")], False),
        ([acl("orders"), acl("*", permission=DENY)], False),
        ([acl("orders"), acl("o", permission=DENY, pattern=PREFIXED)], False),
        ([acl("orders"), acl("orders", ALL, DENY)], False),
        ([acl("orders"), acl("orders", DESCRIBE, DENY)], True),
        ([acl("orders"), acl("orders", READ, DENY, who="User:bob")], True),
        ([acl("orders"), acl("orders", READ, DENY, host="10.0.0.2")], True),
        ([acl("*"), acl("orders", READ, DENY, who="User:*")], False),
    ],
)
def test_deny_counts_before_allow_in_all_patterns_that_name_a_resource(acls, expected):
    assert allows(acls) is expected
    assert allows(acls[::-1]) is expected


@pytest.mark.parametrize("operation", list(AclOperation)[3:13])
def test_what_an_operation_implies(operation):
    implies_describe = ("READ", "WRITE", "DELETE", "ALTER", "DESCRIBE")
    implies_configs = ("ALTER_CONFIGS", "DESCRIBE_CONFIGS")
    given = [acl("orders", operation)]
    assert allows(given, operation=DESCRIBE) is (operation.name in implies_describe)
    assert allows(given, operation=DESCRIBE_CONFIGS) is (operation.name in implies_configs)
    denied = [acl("orders", ALL), acl("orders", operation, DENY)]
    assert allows(denied, operation=DESCRIBE) is (operation != DESCRIBE)


def test_a_super_user_may_do_everything():
    authorizer = Authorizer(["User:bob"], [acl("*", ALL, DENY, who="User:*")])
    assert authorizer.allows(BOB, WRITE, TOPIC, "orders")
    assert not authorizer.allows(ALICE, WRITE, TOPIC, "orders")
    assert authorizer.allows_somewhere(BOB, WRITE, TOPIC)


def test_what_nobody_named_is_open_only_if_the_setting_says_so():
    """A resource that any ACL names is never open, not even for other principals."""
    acls = [acl("orders", who="User:bob"), acl("pay", pattern=PREFIXED, who="User:bob")]
    assert allows(acls, "other", allows_without_acl=True)
    assert not allows(acls, "orders", allows_without_acl=True)
    assert not allows(acls, "payments", allows_without_acl=True)
    assert not allows(acls, "other")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("a", WRITE)], True),
        ([acl("a", READ)], False),
        ([acl("a", ALL)], True),
        ([acl("a", WRITE, who="User:*")], True),
        ([acl("a", WRITE, host="other")], False),
        ([acl("a", WRITE), acl("a", WRITE, DENY)], False),
        ([acl("ab", WRITE), acl("a", WRITE, DENY, PREFIXED)], False),
        ([acl("ab", WRITE, pattern=PREFIXED), acl("a", WRITE, DENY, PREFIXED)], False),
        ([acl("a", WRITE, pattern=PREFIXED), acl("ab", WRITE, DENY, PREFIXED)], True),
        ([acl("a", WRITE, pattern=PREFIXED), acl("a", WRITE, DENY)], True),
        ([acl("ab", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("*", WRITE), acl("ab", WRITE, DENY)], True),
    ],
)
def test_some_resource_of_a_type_is_allowed(acls, expected):
    """Source: Authorizer.authorizeByResourceType."""
    authorizer = Authorizer((), acls)
    assert authorizer.allows_somewhere(ALICE, WRITE, TOPIC) is expected
    assert authorizer.allows_somewhere(ALICE, WRITE, TOPIC) is expected
    assert not authorizer.allows_somewhere(ALICE, WRITE, GROUP)


def test_an_empty_name_is_no_resource_of_any_name():
    """A client that produces to it changes nothing for others of the same name and host."""
    authorizer = Authorizer((), [acl("t", operation=READ)])
    assert not authorizer.allows(ALICE, READ, TOPIC, "")
    assert authorizer.allows_somewhere(ALICE, READ, TOPIC)
    assert not authorizer.allows(ALICE, READ, TOPIC, "")


def test_the_operations_of_a_resource_as_bits():
    authorizer = Authorizer((), [acl("orders", READ), acl("orders", ALTER_CONFIGS)])
    told = authorizer.operations(ALICE, TOPIC, "orders")
    expected = READ, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS
    assert told == sum(1 << operation for operation in expected)
    assert authorizer.operations(BOB, TOPIC, "orders") == 0


def test_a_change_counts_at_once():
    """An answer that was kept is forgotten when an ACL comes or goes."""
    authorizer = Authorizer()
    for _ in range(2):
        assert not authorizer.allows(ALICE, READ, TOPIC, "orders")
        authorizer.apply(AclsCreated((acl("ord", pattern=PREFIXED),)))
        assert authorizer.allows(ALICE, READ, TOPIC, "orders")
        authorizer.apply(AclsDeleted((acl("ord", pattern=PREFIXED), acl("none"))))
    assert authorizer.rule(ALICE, READ, TOPIC, "orders") is module.DEFAULT_DENY
    assert authorizer.index_size == 0


def test_answers_are_bounded(monkeypatch):
    """Whoever asks for ever new names makes its own answers be forgotten."""
    monkeypatch.setattr(module, "ANSWERS_PER_CLIENT", 10)
    monkeypatch.setattr(module, "MOST_ANSWERS", 25)
    authorizer = Authorizer((), [acl("t", pattern=PREFIXED)])
    for n in range(100):
        assert authorizer.allows(ALICE, READ, TOPIC, f"t{n}")
    assert 0 < authorizer.kept_answers <= 10
    for n in range(100):
        authorizer.allows(Client(Principal("User", f"u{n}")), READ, TOPIC, "t")
    assert 0 < authorizer.kept_answers <= 25


def test_answers_about_long_names_are_not_kept():
    """They would fill the memory: a client may ask about names of 32 KB."""
    authorizer = Authorizer((), [acl("t", pattern=PREFIXED)])
    assert authorizer.allows(ALICE, READ, TOPIC, "t" * 30_000)
    assert not authorizer.kept_answers


def naive(acls, client, operation, name):
    """Kafka's rule, said again in the slowest way."""
    naming = [
        one
        for one in acls
        if one.resource_type == TOPIC
        and (one.name in (name, "*") if one.pattern_type == LITERAL else name.startswith(one.name))
    ]
    implied = {DESCRIBE: (READ, WRITE, AclOperation.DELETE, AclOperation.ALTER)}
    found = [
        one.permission
        for one in naming
        if one.principal in (str(client.principal), "User:*")
        and one.host in ("*", client.peer_host)
        and (
            one.operation in (ALL, operation)
            or (one.permission == ALLOW and one.operation in implied.get(operation, ()))
        )
    ]
    return DENY not in found and ALLOW in found


NAMES = frozenset(("a", "abc", "abcd", "b", "c"))


def test_any_acls_give_the_answers_of_the_plain_rule():
    """Also while ACLs come and go."""
    chance = random.Random(7)
    names = ["a", "ab", "abc", "b", "*"]
    for _ in range(300):
        acls = {}
        authorizer = Authorizer()
        for _ in range(chance.randrange(12)):
            one = acl(
                chance.choice(names),
                chance.choice([READ, WRITE, DESCRIBE, ALL]),
                chance.choice([ALLOW, ALLOW, DENY]),
                chance.choice([LITERAL, PREFIXED]),
                chance.choice(["User:alice", "User:bob", "User:*"]),
                chance.choice(["*", "10.0.0.1", "h"]),
            )
            if chance.random() < 0.2:
                acls.pop(one, None)
                authorizer.apply(AclsDeleted((one,)))
            else:
                acls[one] = None
                authorizer.apply(AclsCreated((one,)))
            for client in (ALICE, BOB):
                for operation in (READ, DESCRIBE):
                    for name in NAMES:
                        said = authorizer.allows(client, operation, TOPIC, name)
                        assert said == naive(acls, client, operation, name)
                    for one in (authorizer, Authorizer((), acls, allows_without_acl=True)):
                        assert one.allowed_names(client, operation, TOPIC, NAMES) == {
                            name for name in NAMES if one.allows(client, operation, TOPIC, name)
                        }


def test_a_check_is_one_call_however_many_acls_there_are():
    """The way of a record pays two look-ups in dictionaries, and no call beside the check."""
    acls = [acl(f"t{n}", WRITE, who=f"User:u{n % 100}") for n in range(10_000)]
    authorizer = Authorizer((), [*acls, acl("t", WRITE, pattern=PREFIXED)])
    assert authorizer.allows(ALICE, WRITE, TOPIC, "t5")
    calls = []
    sys.setprofile(
        lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        assert authorizer.allows(ALICE, WRITE, TOPIC, "t5")
    finally:
        sys.setprofile(None)
    assert calls == ["allows"]
