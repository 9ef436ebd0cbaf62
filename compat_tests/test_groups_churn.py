"""Members that come, go and are killed, of several clients at once: no partition has two owners for
long, none is left out, and no record is missed.
"""

import random
import threading
from collections.abc import Callable, Iterator

import pytest

from compat_tests.clients import produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool, started_tool
from compat_tests.test_groups import KINDS, PARTITIONS, Members, rows
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_come_and_go_all_the_time(bootstrap: str, names: Names, kind: str) -> None:
    """Ten steps of a dice that lets members in and out; in the end all is shared, all was read."""
    topic, group = names.topic("churn"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    members = Members()
    member = KINDS[kind](bootstrap, group, topic)
    dice = random.Random(kind)
    running: list[int] = []
    produced = 0
    for step in range(10):
        if len(running) > 1 and dice.random() < 0.4:
            members.stop(running.pop(dice.randrange(len(running))))
        elif len(running) < PARTITIONS:
            members.start(step, member)
            running.append(step)
        produce_confluent(bootstrap, topic, rows(produced, produced + 50))
        produced += 50
        if dice.random() < 0.5:
            members.wait_read(produced)
    members.wait_shared(len(running))
    members.wait_read(produced)
    members.stop_all()


def test_clients_of_different_kinds_share_a_group(bootstrap: str, names: Names) -> None:
    """They have an assignor in common, whatever else they offer."""
    topic, group = names.topic("mixed"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    produce_confluent(bootstrap, topic, rows(0, 300))
    members = Members()
    for number, kind in enumerate(KINDS):
        members.start(number, KINDS[kind](bootstrap, group, topic))
    members.wait_shared(3)
    produce_confluent(bootstrap, topic, rows(300, 600))
    members.wait_read(600)
    members.stop(1)
    members.wait_shared(2)
    members.stop_all()


def test_ten_members_start_together(bootstrap: str, names: Names) -> None:
    """Each has its share in the end; two of them have none where there is none to have."""
    topic, group = names.topic("together"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    members = Members()
    member = KINDS["confluent"](bootstrap, group, topic)
    for number in range(PARTITIONS + 2):
        members.start(number, member)
    members.wait_shared(PARTITIONS)
    members.stop_all()


class JavaConsumer:
    """A VerifiableConsumer, which tells what it is assigned; its lines are read in a thread."""

    def __init__(self, bootstrap: str, topic: str, group: str, is_killed: bool) -> None:
        arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group)
        options = ("--session-timeout", "6000", "--reset-policy", "earliest")
        self.process = started_tool(VERIFIABLE_CONSUMER, *arguments, *options, is_killed=is_killed)
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines += iter(self.process.stdout.readline, "")

    def stop(self) -> None:
        """End it in order: it leaves its group."""
        self.process.terminate()
        self._wait()

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self._wait()

    def _wait(self) -> None:
        self.process.wait(30)
        self._thread.join(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def java_consumer(bootstrap: str) -> Iterator[Callable[..., JavaConsumer]]:
    """Starts consumers; those that still run are killed after the test."""
    consumers: list[JavaConsumer] = []

    def start(topic: str, group: str, is_killed: bool = False) -> JavaConsumer:
        consumers.append(JavaConsumer(bootstrap, topic, group, is_killed))
        return consumers[-1]

    yield start
    for consumer in consumers:
        if consumer.process.poll() is None:
            consumer.kill()


def shares(bootstrap: str, group: str) -> list[int]:
    """How many partitions each member has, as kafka-consumer-groups tells."""
    server = ("--bootstrap-server", bootstrap)
    shown = run_tool(GROUPS, *server, "--describe", "--group", group, "--members")
    fields = [line.split() for line in shown.splitlines() if line.startswith(group)]
    return sorted(int(line[-1]) for line in fields)


def test_java_consumers_that_are_killed(
    bootstrap: str, names: Names, java_consumer: Callable[..., JavaConsumer]
) -> None:
    """One leaves, one is killed and is missed when its session ends; the last one has it all."""
    topic, group = names.topic("killed"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    consumers = [java_consumer(topic, group, is_killed=number == 1) for number in range(3)]
    wait_until(
        lambda: shares(bootstrap, group) == [2, 2, 2], timeout_s=60, what="three members to share"
    )
    consumers[0].stop()
    wait_until(lambda: shares(bootstrap, group) == [3, 3], timeout_s=60, what="two to share")
    consumers[1].kill()
    wait_until(lambda: shares(bootstrap, group) == [6], timeout_s=60, what="one to have all")


def test_offsets_by_kafka_consumer_groups(
    bootstrap: str, names: Names, java_consumer: Callable[..., JavaConsumer]
) -> None:
    """Reset, deleted by topic, refused while members read; then the group goes."""
    topic, group = names.topic("offsets"), names.group()
    create_topics(bootstrap, topic, partitions=2)
    produce_confluent(bootstrap, topic, rows(0, 100))
    server = ("--bootstrap-server", bootstrap, "--group", group)

    def offsets() -> int:
        shown = run_tool(GROUPS, *server, "--describe", "--offsets")
        lines = [line.split() for line in shown.splitlines() if topic in line]
        return sum(int(line[3]) for line in lines if line[3] != "-")

    def reset(*how: str) -> int:
        run_tool(GROUPS, *server, "--reset-offsets", "--topic", topic, *how, "--execute")
        return offsets()

    assert reset("--to-latest") == 100
    assert reset("--shift-by", "-5") == 90
    assert reset("--to-datetime", "2001-01-01T00:00:00.000") == 0
    consumer = java_consumer(topic, group)
    wait_until(lambda: shares(bootstrap, group) == [2], timeout_s=60, what="the member")
    refused = run_tool(GROUPS, *server, "--delete-offsets", "--topic", topic)
    assert "subscribed" in refused
    refused = run_tool(GROUPS, *server, "--delete")
    assert "not empty" in refused.lower()
    consumer.stop()
    listed = run_tool(GROUPS, *server[:2], "--list", "--state", "Empty", "--type", "classic")
    assert group in listed.split()
    assert "Successful" in run_tool(GROUPS, *server, "--delete-offsets", "--topic", topic)
    assert offsets() == 0
    assert "successful" in run_tool(GROUPS, *server, "--delete")
    assert group not in run_tool(GROUPS, *server[:2], "--list").split()
