"""Kafka Streams and Kafka Connect over TLS, with a login, and with no more rights than they need.

Each runs with one mechanism; ``make compat-secured`` runs each with all of them. With
``KWIRE_SECURED=kafka`` the same tests run on Apache Kafka.
"""

import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from compat_tests import secured_clients
from compat_tests.apache_kafka import QUICK_JVM
from compat_tests.java_tools import connect_command
from compat_tests.reading import LOOK_S, count_of
from compat_tests.secured import (
    AUTHORIZER,
    MECHANISMS,
    SecuredBroker,
    allow,
    create_users,
    secured_broker,
)
from compat_tests.test_streams import SOURCE, TARGET, WORD_COUNT, running, settings
from kwire.config.properties import parse_properties
from kwire.testing.waiting import wait_until
from tests.support.ports import free_port
from tests.support.topics import create_topics

ALL = [("SSL", ""), *(("SASL_SSL", mechanism) for mechanism in MECHANISMS)]
OF_STREAMS = ALL if secured_clients.IS_ON else [("SASL_SSL", "OAUTHBEARER")]
OF_CONNECT = ALL if secured_clients.IS_ON else [("SASL_SSL", "SCRAM-SHA-512")]
LINES = 20
APPLICATION = "words-"
RIGHTS = (
    (ResourceType.TOPIC, "streams-", AclOperation.READ),
    (ResourceType.TOPIC, "streams-", AclOperation.WRITE),
    (ResourceType.TOPIC, APPLICATION, AclOperation.ALL),
    (ResourceType.GROUP, APPLICATION, AclOperation.READ),
    (ResourceType.TRANSACTIONAL_ID, APPLICATION, AclOperation.WRITE),
    (ResourceType.TOPIC, "t-", AclOperation.READ),
    (ResourceType.GROUP, "connect-t-", AclOperation.READ),
)
PATIENCE_S = 180


class Place(NamedTuple):
    """A broker, and the address where admins reach it."""

    broker: SecuredBroker
    plain: str

    def create(self, *topics: str) -> None:
        """Create topics with one partition."""
        create_topics(self.plain, *topics)

    def delete(self, *topics: str) -> None:
        """Delete topics."""
        admin = AdminClient({"bootstrap.servers": self.plain})
        for one in admin.delete_topics(list(topics)).values():
            one.result(30)

    def write(self, topic: str, value: bytes) -> None:
        """Write the same value several times."""
        producer = Producer({"bootstrap.servers": self.plain})
        for _ in range(LINES):
            producer.produce(topic, value)
        assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker where alice may do what the programs do."""
    with secured_broker(tmp_path_factory.mktemp("secured"), AUTHORIZER) as (broker, plain):
        create_users(plain)
        allow(plain, RIGHTS)
        yield Place(broker, plain)


@pytest.mark.parametrize(("protocol", "mechanism"), OF_STREAMS)
def test_streams(place: Place, tmp_path: Path, protocol: str, mechanism: str) -> None:
    """A word count with exactly_once_v2, which creates topics of its own."""
    place.create(SOURCE, TARGET)
    place.write(SOURCE, b"all streams lead to kafka")
    name = f"{APPLICATION}{uuid.uuid4().hex}"
    file = settings(tmp_path / "a", place.broker.bootstrap[protocol], name)
    with Path(file).open("a", encoding="utf-8") as more:
        more.write(Path(place.broker.java(protocol, mechanism)).read_text())
    with running(WORD_COUNT, file):
        wait_until(
            lambda: count_of(place.plain, TARGET, 1) >= 5 * LINES,
            timeout_s=PATIENCE_S,
            what="all counts",
            interval_s=LOOK_S,
        )
    place.delete(SOURCE, TARGET)


@pytest.mark.parametrize(("protocol", "mechanism"), OF_CONNECT)
def test_connect(place: Place, tmp_path: Path, protocol: str, mechanism: str) -> None:
    """A worker writes a topic into a file."""
    topic, lines = f"t-{uuid.uuid4().hex}", tmp_path / "lines"
    place.create(topic)
    place.write(topic, b"hello")
    login = parse_properties(Path(place.broker.java(protocol, mechanism)).read_text())
    text = "org.apache.kafka.connect.storage.StringConverter"
    worker = {
        "bootstrap.servers": place.broker.bootstrap[protocol],
        "key.converter": text,
        "value.converter": text,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "consumer.auto.offset.reset": "earliest",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "plugin.discovery": "service_load",
        **login,
        **{f"consumer.{name}": value for name, value in login.items()},
    }
    connector = {
        "name": topic,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "file": str(lines),
    }
    files = [_written(tmp_path / "worker", worker), _written(tmp_path / "connector", connector)]
    command = connect_command(
        "org.apache.kafka.connect.cli.ConnectStandalone", *files, options=QUICK_JVM
    )
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            wait_until(
                lambda: lines.exists() and len(lines.read_text().splitlines()) == LINES,
                timeout_s=PATIENCE_S,
                what="all lines",
            )
        finally:
            process.kill()
    assert set(lines.read_text().splitlines()) == {"hello"}


def _written(path: Path, values: Mapping[str, str]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return str(path)
