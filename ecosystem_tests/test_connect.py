"""Kafka Connect with distributed workers, and MirrorMaker 2: their state is in topics."""

import json
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from compat_tests.apache_kafka import QUICK_JVM, ApacheKafka
from compat_tests.clients import produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_tools import MIRROR, connect_command
from compat_tests.reading import LOOK_S, read_all
from ecosystem_tests.java_programs import Program, running, written
from kwire.testing.waiting import wait_until
from tests.support.ports import free_port
from tests.support.topics import create_topics

LINES = 300
PATIENCE_S = 180


def values_in(bootstrap: str, topic: str) -> list[str]:
    """The committed values of a topic; none if it isn't there yet."""
    try:
        return [value for _, _, value in read_all(bootstrap, topic, 1)]
    except AssertionError:
        return []


def wait_for(bootstrap: str, topic: str, program: Program, values: list[str]) -> None:
    """Wait until a topic has at least these values; AssertionError if it then has others."""

    def is_there() -> bool:
        program.has_to_run()
        return len(values_in(bootstrap, topic)) >= len(values)

    wait_until(is_there, timeout_s=PATIENCE_S, what=f"{topic}", interval_s=LOOK_S)
    assert values_in(bootstrap, topic) == values


def accepts(url: str, connector: dict[str, str]) -> bool:
    """Whether a worker is ready and takes a connector's settings."""
    body = json.dumps(connector).encode()
    request = Request(url, body, {"Content-Type": "application/json"}, method="PUT")
    try:
        with urlopen(request, timeout=60):
            return True
    except URLError:
        return False


@pytest.mark.runs(
    "Kafka Connect, distributed, with `exactly.once.source.support`",
    "connect-runtime",
    "exactly once, through kill -9 of the worker; also with Kafka's file connectors",
)
def test_lines_of_a_file_come_once(bootstrap: str, names: Names, tmp_path: Path) -> None:
    """The worker is killed; the next one goes on in the file where a transaction was committed."""
    topic, name = names.topic("lines"), names.group("connect")
    inner = {kind: names.topic(f"connect-{kind}") for kind in ("config", "offset", "status")}
    create_topics(bootstrap, topic)
    port = free_port()
    worker = {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "exactly.once.source.support": "enabled",
        "scheduled.rebalance.max.delay.ms": 0,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 2000,
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
        **{f"{kind}.storage.topic": name for kind, name in inner.items()},
        **{f"{kind}.storage.replication.factor": 1 for kind in inner},
    }
    file = tmp_path / "lines"
    lines = [f"line-{number:05}" for number in range(LINES)]
    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "topic": topic,
        "file": str(file),
        "exactly.once.support": "required",
    }
    command = connect_command(
        "org.apache.kafka.connect.cli.ConnectDistributed",
        written(tmp_path / "worker", worker),
        options=QUICK_JVM,
    )
    file.write_text("".join(f"{line}\n" for line in lines[: LINES // 2]), encoding="utf-8")
    with running(command, tmp_path / "log") as first:
        url = f"http://127.0.0.1:{port}/connectors/{name}/config"

        def is_ready() -> bool:
            first.has_to_run()
            return accepts(url, connector)

        wait_until(is_ready, timeout_s=PATIENCE_S, what="the worker", interval_s=LOOK_S)
        wait_until(lambda: values_in(bootstrap, topic), timeout_s=PATIENCE_S, interval_s=LOOK_S)
    with file.open("a", encoding="utf-8") as more:
        more.writelines(f"{line}\n" for line in lines[LINES // 2 :])
    with running(command, tmp_path / "log") as second:
        wait_for(bootstrap, topic, second, lines)


@pytest.mark.runs(
    "MirrorMaker 2, both ways with Apache Kafka",
    "connect-mirror",
    "at least once; `replication.factor` is 1 on a single broker",
)
def test_a_mirror_of_each_other(bootstrap: str, names: Names, tmp_path: Path) -> None:
    """A topic of one comes to the other, with its own records and no others."""
    topic = names.topic("mirrored")
    here = [f"here-{number:05}" for number in range(LINES)]
    there = [f"there-{number:05}" for number in range(LINES)]
    with ApacheKafka(tmp_path / "kafka") as kafka:
        for address, values in ((bootstrap, here), (kafka.bootstrap, there)):
            create_topics(address, topic)
            produce_confluent(address, topic, [(None, one.encode(), []) for one in values])
        both = {
            "clusters": "here,there",
            "here.bootstrap.servers": bootstrap,
            "there.bootstrap.servers": kafka.bootstrap,
            "here->there.enabled": "true",
            "there->here.enabled": "true",
            "here->there.topics": topic,
            "there->here.topics": topic,
            "replication.factor": 1,
            "sync.topic.acls.enabled": "false",
            "refresh.topics.interval.seconds": 5,
            **{
                f"{name}.topic.replication.factor": 1
                for name in ("checkpoints", "heartbeats", "offset-syncs")
            },
            **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
        }
        command = connect_command(
            f"{MIRROR}MirrorMaker", written(tmp_path / "both", both), options=QUICK_JVM
        )
        with running(command, tmp_path / "log") as program:
            wait_for(kafka.bootstrap, f"here.{topic}", program, here)
            wait_for(bootstrap, f"there.{topic}", program, there)
