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
    """A type of resource: its name, its option of kafka-acls.sh, and options of kwire with names
    of such resources.
    """

    name: str
    option: str
    arguments: tuple[str, ...] = ()


KINDS = {
    "TOPIC_AUTHORIZATION_FAILED": Kind(
        "topic", "--topic", ("topic", "topics", "names", "name", "resource")
    ),
    "GROUP_AUTHORIZATION_FAILED": Kind("group", "--group", ("group", "groups", "name")),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Kind(
        "transactional id", "--transactional-id", ("id", "ids")
    ),
    "CLUSTER_AUTHORIZATION_FAILED": Kind("cluster", "--cluster"),
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
    ("bench", ""): {"topic": ("CREATE", "WRITE", "READ", "DELETE")},
}
"""The operations of a command, or of its action, on each kind of resource that may be denied."""

NEVER_DENIED = {
    *(("topics", "list"), ("groups", "list"), ("transactions", "list"), ("health", "")),
    *(("cluster", "brokers"), ("cluster", "controller"), ("cluster", "features")),
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
    names = [name] if name else _names(error, options, kind)
    of = " ".join([kind.name, *names]) if len(names) < 2 else f"{kind.name}s {', '.join(names)}"
    options_of_acls = [f"--operation {_as_acls_write(one)}" for one in operations]
    options_of_acls += [f"{kind.option} {shlex.quote(one)}" for one in names] or [kind.option]
    if command == ("bench", ""):
        of = f"topics {BENCH_PREFIX}…"
        options_of_acls[-1] = f"--resource-pattern-type prefixed {kind.option} {BENCH_PREFIX}"
    return (
        f"it needs {_listed(operations)} on the {of}, which an administrator grants with "
        "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME "
        f"{' '.join(options_of_acls)}"
    )


def _names(error: "KafkaError", options: argparse.Namespace, kind: Kind) -> list[str]:
    """The resources of the command line of this kind: the one that the error names, or all."""
    found: list[str] = []
    for argument in kind.arguments:
        given = getattr(options, argument, None)
        for one in given if isinstance(given, list) else [given]:
            text = one[0] if isinstance(one, tuple) else one
            found += [text] if isinstance(text, str) else []
    words = set(error.message.replace(",", " ").split())
    parts = {word.rpartition("-")[0] for word in words}  # a partition is written as orders-0
    return [one for one in found if one in words or one in parts] or found


def _listed(words: tuple[str, ...]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _as_acls_write(operation: str) -> str:
    """``DescribeConfigs`` for DESCRIBE_CONFIGS."""
    return operation.title().replace("_", "")
