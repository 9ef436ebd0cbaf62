"""What a denied command needs: the right, the resource, and the command that grants it.

Kafka's answer has an error code for the type of resource, and says nothing of the operation. Each
command needs the same operations every time, so this table has them. READ, WRITE, DELETE and ALTER
include DESCRIBE, which is left out beside them.
"""

import argparse
import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kwire.errors import KafkaError


class Kind(NamedTuple):
    """A type of resource: its name, the word of kwire acls for it, and options of kwire with names
    of such resources.
    """

    name: str
    word: str
    arguments: tuple[str, ...] = ()


KINDS = {
    "TOPIC_AUTHORIZATION_FAILED": Kind(
        "topic", "topic", ("topic", "topics", "names", "name", "resource")
    ),
    "GROUP_AUTHORIZATION_FAILED": Kind("group", "group", ("group", "groups", "name")),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Kind(
        "transactional id", "transactional-id", ("id", "ids")
    ),
    "CLUSTER_AUTHORIZATION_FAILED": Kind("cluster", "cluster"),
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": Kind("user", "user", ("owner",)),
}

RIGHTS: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("topics", "describe"): {"topic": ("DESCRIBE", "DESCRIBE_CONFIGS")},
    ("topics", "create"): {"topic": ("CREATE",)},
    ("topics", "delete"): {"topic": ("DELETE",)},
    ("topics", "alter"): {"topic": ("ALTER_CONFIGS",)},
    ("topics", "add-partitions"): {"topic": ("ALTER",)},
    ("produce", ""): {"topic": ("WRITE",)},
    ("consume", ""): {"topic": ("READ",), "group": ("READ",)},
    ("groups", "describe"): {"topic": ("DESCRIBE",), "group": ("DESCRIBE",)},
    ("groups", "delete"): {"group": ("DELETE",)},
    ("groups", "explain"): {"group": ("DESCRIBE",)},
    ("groups", "reset"): {"topic": ("READ",), "group": ("READ",)},
    ("groups", "delete-offsets"): {"topic": ("READ",), "group": ("DELETE",)},
    ("share", "consume"): {"topic": ("READ",), "group": ("READ",)},
    ("share", "describe"): {"topic": ("DESCRIBE",), "group": ("DESCRIBE",)},
    ("share", "reset"): {"topic": ("READ",), "group": ("READ",)},
    ("share", "delete-offsets"): {"topic": ("READ",), "group": ("DELETE",)},
    ("share", "dead-letters"): {"topic": ("READ", "WRITE"), "group": ("DESCRIBE_CONFIGS",)},
    ("configs", "describe"): {
        "topic": ("DESCRIBE", "DESCRIBE_CONFIGS"),
        "group": ("DESCRIBE_CONFIGS",),
        "cluster": ("DESCRIBE_CONFIGS",),
    },
    ("configs", "set"): dict.fromkeys(("topic", "group", "cluster"), ("ALTER_CONFIGS",)),
    ("configs", "unset"): dict.fromkeys(("topic", "group", "cluster"), ("ALTER_CONFIGS",)),
    ("records", "delete"): {"topic": ("DELETE",)},
    ("transactions", "describe"): {"transactional id": ("DESCRIBE",)},
    ("transactions", "abort"): {
        "transactional id": ("WRITE",),
        "topic": ("READ",),
        "cluster": ("ALTER",),
    },
    ("transactions", "open"): {"topic": ("READ",)},
    ("users", "list"): {"cluster": ("DESCRIBE",)},
    ("users", "add"): {"cluster": ("ALTER",)},
    ("users", "password"): {"cluster": ("ALTER",)},
    ("users", "remove"): {"cluster": ("ALTER",)},
    ("acls", "list"): {"cluster": ("DESCRIBE",)},
    ("acls", "add"): {"cluster": ("ALTER",)},
    ("acls", "remove"): {"cluster": ("ALTER",)},
    ("acls", "explain"): {"cluster": ("DESCRIBE",)},
    ("quotas", "list"): {"cluster": ("DESCRIBE_CONFIGS",)},
    ("quotas", "set"): {"cluster": ("ALTER_CONFIGS",)},
    ("quotas", "unset"): {"cluster": ("ALTER_CONFIGS",)},
    ("tokens", "create"): {"user": ("CREATE_TOKENS",)},
    ("reassign", "plan"): {"topic": ("DESCRIBE",)},
    ("reassign", "run"): {
        "topic": ("DESCRIBE", "ALTER_CONFIGS"),
        "cluster": ("ALTER", "ALTER_CONFIGS"),
    },
    ("reassign", "status"): {"cluster": ("DESCRIBE",)},
    ("reassign", "cancel"): {"cluster": ("ALTER",)},
    ("reassign", "unthrottle"): {
        "topic": ("DESCRIBE", "ALTER_CONFIGS"),
        "cluster": ("ALTER_CONFIGS",),
    },
    ("elections", "list"): {"topic": ("DESCRIBE",)},
    ("elections", "run"): {"topic": ("DESCRIBE",), "cluster": ("ALTER",)},
    ("bench", ""): {"topic": ("CREATE", "WRITE", "READ", "DELETE")},
}
"""The operations of a command, or of its action, on each kind of resource that may be denied."""

NEVER_DENIED = {
    *(("topics", "list"), ("groups", "list"), ("transactions", "list"), ("health", "")),
    *(("cluster", "brokers"), ("cluster", "controller"), ("cluster", "features")),
    ("share", "list"),
    *(("tokens", "list"), ("tokens", "renew"), ("tokens", "expire")),
}
"""Commands that leave out what the user may not see, or say themselves what is not known."""

BENCH_PREFIX = "kwire-bench-"


def remedy(error: "KafkaError", options: argparse.Namespace, name: str = "") -> str | None:
    """What the denied user needs, as the end of a line; None if the error isn't a denial.

    ``name`` is the resource, if the caller knows it.
    """
    kind = KINDS.get(error.code.name)
    command = (options.command, getattr(options, "action", ""))
    operations = RIGHTS.get(command, {}).get(kind.name) if kind else None
    if kind is None or operations is None:
        return None
    names = [name] if name and kind.arguments else _names(error, options, kind)
    of = " ".join([kind.name, *names]) if len(names) < 2 else f"{kind.name}s {', '.join(names)}"
    resources = [f"{kind.word}:{one}" for one in names] or [kind.word]
    if command == ("bench", ""):
        of = f"topics {BENCH_PREFIX}…"
        resources = [f"{kind.word}:{BENCH_PREFIX}*"]
    return (
        f"it needs {_listed(operations)} on the {of}, which an administrator grants with "
        f"kwire acls add User:NAME {','.join(operations)} {' '.join(map(shlex.quote, resources))}"
    )


def _names(error: "KafkaError", options: argparse.Namespace, kind: Kind) -> list[str]:
    """The resources of the command line of this kind: the one that the error names, or all."""
    found = _given(options, kind)
    words = set(error.message.replace(",", " ").split())
    parts = {word.rpartition("-")[0] for word in words}  # a partition is written as orders-0
    return [one for one in found if one in words or one in parts] or found


def topics_of(options: argparse.Namespace) -> list[str]:
    """The topics that the command line names."""
    return _given(options, KINDS["TOPIC_AUTHORIZATION_FAILED"])


def groups_of(options: argparse.Namespace) -> list[str]:
    """The groups that the command line names."""
    return _given(options, KINDS["GROUP_AUTHORIZATION_FAILED"])


def _given(options: argparse.Namespace, kind: Kind) -> list[str]:
    """The names in the arguments that may be of this kind."""
    found: list[str] = []
    for argument in kind.arguments:
        given = getattr(options, argument, None)
        for one in given if isinstance(given, list) else [given]:
            text = one[0] if isinstance(one, tuple) else one
            found += [text] if isinstance(text, str) else []
    return found


def _listed(words: tuple[str, ...]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
