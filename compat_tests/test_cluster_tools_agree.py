"""Kafka's tools at three brokers say what they say at three Apache Kafkas, but for known lines.

``tools_at_three_kafkas.json`` has what each version of the tools said at brokers of that version,
without ids, addresses and numbers that differ from run to run. ``KWIRE_RECORD=1`` with
``BOOTSTRAP=`` of three Apache Kafkas writes it anew (docs/CONTRIBUTING-TESTS.md).
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import VERSION
from compat_tests.test_cluster_tools import CLUSTER, FEATURES, QUORUM, VERSIONS
from compat_tests.test_cluster_tools import nodes as nodes
from compat_tests.test_java_tools import TOPICS

RECORD = Path(__file__).with_name("tools_at_three_kafkas.json")
VERBATIM: list[tuple[str, str]] = [
    (r"\b(localhost|127\.0\.0\.1):\d+", "ADDRESS"),
    (r"\b127\.0\.0\.1\s+\d+\b", "ADDRESS"),
    (r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w(-])", "ID"),
]
"""What differs between any two clusters."""

NUMBER = [(r"-?\b\d+\b", "N")]


class Known(NamedTuple):
    """Lines that differ on purpose: an expression for how they begin, and why."""

    beginning: str
    why: str


def status(at: str, topic: str) -> str:
    """The quorum."""
    return run_tool(QUORUM, "--bootstrap-server", at, "describe", "--status")


def replication(at: str, topic: str) -> str:
    """The members of the quorum."""
    return run_tool(QUORUM, "--bootstrap-server", at, "describe", "--replication")


def cluster_id(at: str, topic: str) -> str:
    """The cluster's id."""
    return run_tool(CLUSTER, "cluster-id", "--bootstrap-server", at)


def endpoints(at: str, topic: str) -> str:
    """The brokers."""
    server = ("--bootstrap-server", at, "--include-fenced-brokers")
    return run_tool(CLUSTER, "list-endpoints", *server)


def topics(at: str, topic: str) -> str:
    """A topic with three replicas."""
    return run_tool(TOPICS, "--bootstrap-server", at, "--describe", "--topic", topic)


def troubled(at: str, topic: str) -> str:
    """Its partitions that are in trouble: none."""
    looked_for = (
        "--unavailable-partitions",
        "--under-replicated-partitions",
        "--under-min-isr-partitions",
        "--at-min-isr-partitions",
    )
    server = ("--bootstrap-server", at, "--describe", "--topic", topic)
    return "".join(run_tool(TOPICS, *server, one) for one in looked_for)


def features(at: str, topic: str) -> str:
    """The levels of features."""
    return run_tool(FEATURES, "--bootstrap-server", at, "describe")


def versions(at: str, topic: str) -> str:
    """The versions of APIs of each broker."""
    return run_tool(VERSIONS, "--bootstrap-server", at)


TOOLS: dict[str, tuple[Callable[[str, str], str], list[tuple[str, str]]]] = {
    "kafka-metadata-quorum describe --status": (status, NUMBER),
    "kafka-metadata-quorum describe --replication": (replication, NUMBER),
    "kafka-cluster cluster-id": (cluster_id, []),
    "kafka-cluster list-endpoints": (endpoints, []),
    "kafka-topics --describe": (topics, [(r"(Leader|Replicas|Isr): [\d,]+", r"\1: N")]),
    "kafka-topics --describe --…-partitions": (troubled, []),
    "kafka-features describe": (features, [(r"Epoch: \d+", "Epoch: N")]),
    "kafka-broker-api-versions": (versions, []),
}
"""What is asked, and what else differs from run to run there."""

KNOWN: dict[str, Known] = {
    "kafka-metadata-quorum describe --status": Known(
        "CurrentVoters", "kwire's voters are its brokers, at the listener of brokers: PLAINTEXT://"
    ),
    "kafka-features describe": Known(
        r"Feature: (share|streams|eligible\.leader\.replicas)\.version|Feature: kwire\.changes",
        "kwire serves no streams groups, has no dead letters of share groups, never stops keeping "
        "eligible leader replicas, "
        "and has a level for the form of its own metadata",
    ),
    "kafka-broker-api-versions": Known(
        r"\w*Streams\w*\(\d+\)|(GetTelemetrySub|PushTelem)\w+",
        "kwire serves no streams groups; it takes clients' metrics, for which Apache "
        "Kafka wants a plugin",
    ),
}

KNOWN_OF_4_3: dict[str, Known] = {
    "kafka-features describe": Known(
        r"Feature: metadata\.version", "kwire's metadata.version is that of Kafka 4.4"
    ),
    "kafka-broker-api-versions": Known(
        r"(ApiVersions|DeleteGroups|TxnOffsetCommit)\(|UNKNOWN\(94\)",
        "kwire serves the versions of Kafka 4.4",
    ),
}
"""Differences from Apache Kafka 4.3.1."""


def lines(printed: str, topic: str, more: list[tuple[str, str]]) -> list[str]:
    """What a tool has printed, without what differs from run to run; sorted."""
    printed = printed.replace(topic, "TOPIC")
    for pattern, replacement in [*VERBATIM, *more]:
        printed = re.sub(pattern, replacement, printed)
    return sorted(" ".join(line.split()).rstrip(",") for line in printed.splitlines() if line)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_says_what_it_says_of_three_kafkas(
    nodes: dict[int, str], names: Names, tool: str
) -> None:
    """Whichever broker is asked; the differences are those of ``KNOWN``, with their reasons."""
    topic = names.topic("agree")
    once = ("--partitions", "6", "--replication-factor", "3", "--config", "min.insync.replicas=2")
    run_tool(TOPICS, "--bootstrap-server", nodes[1], "--create", "--topic", topic, *once)
    ask, more = TOOLS[tool]
    told = [lines(ask(at, topic), topic, more) for at in (nodes[1], nodes[3])]
    assert told[0] == told[1]
    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if os.environ.get("KWIRE_RECORD"):
        recorded.setdefault(VERSION, {})[tool] = told[0]
        RECORD.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return
    tables = (KNOWN, KNOWN_OF_4_3) if VERSION == "4.3.1" else (KNOWN,)
    known = [table[tool] for table in tables if tool in table]
    kept = [_without(known, found) for found in (told[0], recorded[VERSION][tool])]
    assert kept[0] == kept[1]


def _without(known: list[Known], found: list[str]) -> list[str]:
    """The lines that have to be the same."""
    return [line for line in found if not any(re.match(one.beginning, line) for one in known)]
