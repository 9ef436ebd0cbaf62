"""ACLs as a person writes and reads them: ``User:alice``, ``READ,WRITE``, ``topic:orders-*``.

A name that ends with ``*`` is a prefix, and ``*`` alone is every name, as in Kafka. The cluster is
written without a name. ``alice`` alone is ``User:alice``.
"""

import argparse
from typing import NamedTuple

from kwire.cli.suggestions import did_you_mean
from kwire.metadata.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "token": ResourceType.DELEGATION_TOKEN,
    "user": ResourceType.USER,
}
OPERATIONS = {
    one.name: one for one in AclOperation if one not in (AclOperation.UNKNOWN, AclOperation.ANY)
}


class Resources(NamedTuple):
    """The resources of one type that an ACL is for."""

    type: ResourceType
    name: str
    pattern: PatternType


def principal(text: str) -> str:
    """The type of options: ``alice`` or ``User:alice``, and ``*`` for everybody."""
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = "User", text
    if not kind or not name:
        raise argparse.ArgumentTypeError(f"{text}: write it as User:NAME")
    return f"{kind}:{name}"


def operations(text: str) -> list[AclOperation]:
    """The type of options: ``READ``, or several with commas, as Kafka or its tools name them."""
    found: list[AclOperation] = []
    for word in text.split(","):
        name = word.strip().upper().replace("-", "_")
        by_title = {one.replace("_", ""): one for one in OPERATIONS}
        name = by_title.get(name.replace("_", ""), name)
        if name not in OPERATIONS:
            guess = did_you_mean(name, OPERATIONS) or f": choose from {', '.join(OPERATIONS)}"
            raise argparse.ArgumentTypeError(f"there is no operation {word}{guess}")
        found.append(OPERATIONS[name])
    return found


def operation(text: str) -> AclOperation:
    """The type of an option with one operation."""
    [found, *more] = operations(text)
    if more:
        raise argparse.ArgumentTypeError(f"{text}: name one operation")
    return found


def resource(text: str) -> Resources:
    """The type of options: ``topic:orders``, ``topic:orders-*``, ``topic:*`` or ``cluster``."""
    kind, _, name = text.partition(":")
    if kind not in TYPES:
        guess = did_you_mean(kind, TYPES) or f": choose from {', '.join(TYPES)}"
        raise argparse.ArgumentTypeError(f"{text}: there is no type {kind}{guess}")
    if kind == "cluster":
        name = name or CLUSTER_NAME
    if not name:
        raise argparse.ArgumentTypeError(f"{text}: write it as {kind}:NAME")
    if name != WILDCARD and name.endswith(WILDCARD):
        return Resources(TYPES[kind], name.removesuffix(WILDCARD), PatternType.PREFIXED)
    return Resources(TYPES[kind], name, PatternType.LITERAL)


def shown_resource(acl: AclBinding) -> str:
    """The resources of an ACL, as ``resource`` reads them."""
    names = {number: name for name, number in TYPES.items()}
    kind = names.get(ResourceType(acl.resource_type), str(acl.resource_type))
    if kind == "cluster":
        return kind
    return f"{kind}:{acl.name}{WILDCARD * (acl.pattern_type == PatternType.PREFIXED)}"


def shown(acl: AclBinding) -> str:
    """An ACL in one line."""
    verb = "allows" if acl.permission == Permission.ALLOW else "denies"
    host = "" if acl.host == WILDCARD else f" from {acl.host}"
    operation = AclOperation(acl.operation).name
    return f"{verb} {acl.principal}{host} {operation} on {shown_resource(acl)}"
