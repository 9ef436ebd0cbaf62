"""deploy/Containerfile keeps its promises when podman or docker builds and runs it."""

from pathlib import Path

import yaml
from confluent_kafka import Consumer, Producer

from container_tests import tool
from container_tests.conftest import Container, started
from kwire import __version__
from kwire.testing.waiting import wait_until

EXAMPLE = Path(__file__).parents[1] / "deploy" / "kubernetes" / "kwire.yaml"
TOPIC = "orders"
VALUES = [f"order {number}".encode() for number in range(100)]


def _produce(container: Container) -> None:
    """Produce from this machine, through the published port."""
    producer = Producer({"bootstrap.servers": container.bootstrap})
    for value in VALUES:
        producer.produce(TOPIC, value)
    assert producer.flush(60) == 0


def _consume(container: Container) -> list[bytes]:
    """Consume on this machine, through the published port."""
    settings = {"group.id": "host", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": container.bootstrap, **settings})
    consumer.subscribe([TOPIC])
    found: list[bytes] = []

    def has_all() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        return len(found) == len(VALUES)

    wait_until(has_all, timeout_s=60, what="the records")
    consumer.close()
    return found


def test_the_broker_is_nobody(container: Container) -> None:
    """Its user can write to the volume only."""
    assert container.execute("kwire", "--version") == f"kwire {__version__}"
    assert container.execute("id", "-u") == "10001"
    places = "/ /etc /opt/kwire /usr/local /var/lib/kwire"
    look = f"for place in {places}; do if [ -w $place ]; then echo $place; fi; done"
    assert container.execute("sh", "-c", look) == "/var/lib/kwire"


def test_the_container_becomes_healthy(container: Container) -> None:
    """The health check of the image succeeds."""
    if tool.has_health_command():
        tool.run("healthcheck", "run", container.name)

    def is_healthy() -> bool:
        status: str = tool.inspect(container.name)["State"]["Health"]["Status"]
        return status == "healthy"

    wait_until(is_healthy, what="a healthy container", timeout_s=90)


def test_the_host_and_other_containers_produce_and_consume(container: Container) -> None:
    """Each through the port that is for it."""
    _produce(container)
    assert _consume(container) == VALUES
    shown = container.kwire_elsewhere("consume", TOPIC, "--from-beginning", "--exit")
    assert shown.encode().splitlines() == VALUES


def test_a_stop_is_clean_and_the_records_stay(container: Container) -> None:
    """SIGTERM reaches the broker, which ends long before it would be killed."""
    _produce(container)
    tool.run("stop", container.name)
    assert tool.inspect(container.name)["State"]["ExitCode"] == 0
    assert "stopped cleanly" in container.log()
    tool.run("start", container.name)
    container.wait_until_ready(starts=2)
    assert "was not closed cleanly" not in container.log()
    assert _consume(container) == VALUES


def test_it_runs_as_restricted_as_in_the_kubernetes_example(image: str, network: str) -> None:
    """A root that can't be written to, no capabilities, and the pod's arguments and probe."""
    objects = [one for one in yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")) if one]
    [pod] = [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "StatefulSet"]
    [described] = pod["containers"]
    restricted = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    limits = ["--memory", "1g", "--tmpfs", "/tmp"]
    name = f"{network}-pod"
    # The service's name leads to the pod.
    alias = ["--network-alias", "kwire.test.svc"]
    arguments = [word.replace("$(NAMESPACE)", "test") for word in described["args"]]
    with started(name, image, network, [*restricted, *limits, *alias], arguments) as pod_like:
        assert "asks nobody for a password" not in pod_like.log()
        pod_like.kwire_elsewhere("topics", "create", TOPIC)
        assert TOPIC in pod_like.kwire_elsewhere("topics", "list")
        pod_like.execute(*described["livenessProbe"]["exec"]["command"])
