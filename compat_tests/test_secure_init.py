"""What ``kwire secure init`` prints works as it stands, with the clients that it names.

The broker is always a kwire, because the files are for one.
"""

import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest

from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import CONFIGS
from kwire.testing.waiting import wait_until
from tests.support.ports import free_port

KWIRE = [sys.executable, "-m", "kwire"]


class Recipe:
    """The blocks of lines that were printed, by what they are for."""

    def __init__(self, directory: Path) -> None:
        port = str(free_port())
        command = [*KWIRE, "secure", "init", str(directory), "--port", port, "--user", "alice"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        first, *blocks = said.strip().split("\n\n# ")
        self.serve = first.splitlines()[-1]
        self.lines = dict(block.split("\n", 1) for block in blocks)

    def producer(self, what: str) -> Any:
        """The producer that the lines make."""
        names: dict[str, Any] = {}
        exec(self.lines[what], names)
        return names["producer"]

    def settings(self, what: str, name: str) -> Any:
        """What the lines give the class with this name."""
        text = self.lines[what]
        names: dict[str, Any] = {}
        exec(
            text[: text.index("\nfrom ")] + text[text.index("\n\n") :].replace(name, "dict"), names
        )
        return names["producer"]

    def spark(self) -> dict[str, str]:
        """The options that Spark hands to Kafka's client."""
        names: dict[str, Any] = {}
        exec(self.lines["Spark"].rpartition("\n")[0], names)
        return {name.removeprefix("kafka."): text for name, text in names["secured"].items()}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recipe]:
    """A broker that runs with what was made, by the line that was printed."""
    found = Recipe(tmp_path_factory.mktemp("secure") / "secured")
    command = [*KWIRE, *shlex.split(found.serve)[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        assert "ready" in broker.stdout.readline()
        yield found
        broker.terminate()


def test_kwire(recipe: Recipe) -> None:
    """A topic is created and listed."""
    words = shlex.split(recipe.lines["kwire"])
    create = [*KWIRE, "topics", "create", "by-kwire", *words[3:]]
    subprocess.run(create, check=True, env={**os.environ, "KWIRE_CONFIG": "/nowhere"})
    said = subprocess.run([*KWIRE, *words[1:]], check=True, capture_output=True, text=True).stdout
    assert "by-kwire" in said


def test_kafka_python(recipe: Recipe) -> None:
    """A record comes back."""
    topic = f"t-{uuid.uuid4().hex}"
    producer = recipe.producer("kafka-python")
    producer.send(topic, b"hello").get(30)
    producer.close()
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    how = recipe.settings("kafka-python", "KafkaProducer")
    consumer = kafka.KafkaConsumer(topic, **how, **reading)
    assert next(consumer).value == b"hello"
    consumer.close()


def test_librdkafka(recipe: Recipe) -> None:
    """A group reads what was produced."""
    topic = f"t-{uuid.uuid4().hex}"
    what = "librdkafka (confluent-kafka)"
    producer = recipe.producer(what)
    producer.produce(topic, b"hello")
    assert producer.flush(30) == 0
    how = recipe.settings(what, "Producer")
    consumer = confluent_kafka.Consumer({**how, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    wait_until(
        lambda: found.extend(m.value() for m in consumer.consume(1, 1)) or found, what="a record"
    )
    consumer.close()
    assert found == [b"hello"]


def test_java_tools(recipe: Recipe) -> None:
    """The line of kafka-topics.sh, and users and ACLs as the documentation makes them."""
    _, *words = shlex.split(recipe.lines["Kafka's Java tools"])
    run_tool("org.apache.kafka.tools.TopicCommand", *words)
    how = words[:4]
    user = ("--entity-type", "users", "--entity-name", "bob")
    password = "SCRAM-SHA-512=[iterations=8192,password=bobs]"
    run_tool(CONFIGS, *how, "--alter", *user, "--add-config", password)
    rights = ("--allow-principal", "User:bob", "--producer", "--topic", "orders")
    run_tool("org.apache.kafka.tools.AclCommand", *how, "--add", *rights)
    assert "bob" in run_tool("org.apache.kafka.tools.AclCommand", *how, "--list")


def test_the_options_of_spark(recipe: Recipe, tmp_path: Path) -> None:
    """Kafka's Java client, which Spark uses, takes them, with the certificate as a text."""
    path = tmp_path / "spark.properties"
    escaped = {name: text.replace("\n", "\\n\\\n") for name, text in recipe.spark().items()}
    path.write_text("".join(f"{name}={text}\n" for name, text in escaped.items()))
    servers = ("--bootstrap-server", recipe.spark()["bootstrap.servers"])
    run_tool(
        "org.apache.kafka.tools.TopicCommand", *servers, "--command-config", str(path), "--list"
    )
