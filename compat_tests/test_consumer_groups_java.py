"""Kafka's own Java consumer in groups of the next generation (KIP-848), as VerifiableConsumer.

It prints what happens to it as JSON; here it is killed, shut down, and migrated, and Kafka's
command line tools look at its groups.
"""

import json
import threading
from collections.abc import Iterator

import pytest

from compat_tests.clients import produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool, started_tool
from compat_tests.kafka_version import CONFIGS
from compat_tests.test_groups import PARTITIONS, rows
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

SETTLES_S = 120
"""Longer than a session of the consumer protocol, which is 45 s long."""


class JavaMember:
    """A member, and what it says has happened."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, *options: str, is_killed: bool
    ) -> None:
        arguments = ("--bootstrap-server", bootstrap, "--group-id", group, "--topic", topic)
        self._process = started_tool(
            VERIFIABLE_CONSUMER, *arguments, "--verbose", *options, is_killed=is_killed
        )
        self.owned: set[int] = set()
        self.values: set[str] = set()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        out = self._process.stdout
        assert out is not None
        for line in out:
            event = json.loads(line)
            partitions = {p["partition"] for p in event.get("partitions", ())}
            if event["name"] == "partitions_assigned":
                self.owned |= partitions
            elif event["name"] == "partitions_revoked":
                self.owned -= partitions
            elif event["name"] == "record_data":
                self.values.add(event["value"])
        self.owned = set()

    def stop(self) -> None:
        """Shut down properly: the member leaves its group."""
        self._process.terminate()
        self._end()

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


class JavaMembers:
    """Members of one group, and all that they have read."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.topic = topic
        self.alive: list[JavaMember] = []
        self.gone: list[JavaMember] = []
        self.written = 0
        self.assignor = "org.apache.kafka.clients.consumer.RangeAssignor"

    def start(self, protocol: str, is_killed: bool = False) -> JavaMember:
        """A member more; one that will be killed is a process of its own."""
        options = ["--group-protocol", protocol]
        if protocol == "classic":
            options += ["--assignment-strategy", self.assignor]
        member = JavaMember(self.bootstrap, self.group, self.topic, *options, is_killed=is_killed)
        self.alive.append(member)
        return member

    def stop(self, member: JavaMember) -> None:
        """A member leaves."""
        member.stop()
        self._forget(member)

    def kill(self, member: JavaMember) -> None:
        """A member dies."""
        member.kill()
        self._forget(member)

    def _forget(self, member: JavaMember) -> None:
        self.alive.remove(member)
        self.gone.append(member)

    def wait_shared(self) -> None:
        """Wait until those who are alive share all partitions, each with some."""

        def shared() -> bool:
            owned = [member.owned for member in self.alive]
            return all(owned) and sum(map(len, owned)) == PARTITIONS == len(set().union(*owned))

        wait_until(shared, timeout_s=SETTLES_S, what=f"{len(self.alive)} members to share")

    def write_and_read(self) -> None:
        """Write something, and wait until it has been read."""
        produce_confluent(self.bootstrap, self.topic, rows(self.written, self.written + 100))
        self.written += 100

        def read() -> bool:
            values = set[str]().union(*(m.values for m in (*self.alive, *self.gone)))
            return len(values) == self.written

        wait_until(read, timeout_s=SETTLES_S, what=f"{self.written} values")


@pytest.fixture
def members(bootstrap: str, names: Names) -> Iterator[JavaMembers]:
    """A group without members yet; they are shut down in the end."""
    topic = names.topic("java")
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    group = JavaMembers(bootstrap, names.group("java"), topic)
    yield group
    for member in list(group.alive):
        group.kill(member)


def show(members: JavaMembers, *options: str) -> str:
    """What kafka-consumer-groups says of the group."""
    server = ("--bootstrap-server", members.bootstrap)
    return run_tool(GROUPS, *server, "--describe", "--group", members.group, *options)


@pytest.mark.waits(60)
def test_members_share_and_survive_a_kill(members: JavaMembers) -> None:
    """Those who are left take over when the session of the dead one ends; the tools show it all."""
    for number in range(3):
        members.start("consumer", is_killed=number == 0)
    members.wait_shared()
    members.write_and_read()
    members.kill(members.alive[0])
    state = show(members, "--state", "--verbose")
    assert "uniform" in state
    assert state.split()[-1] == "3"
    shown = show(members, "--members", "--verbose")
    assert shown.count("/127.0.0.1") == 3
    members.wait_shared()
    members.write_and_read()
    members.stop(members.alive[0])
    members.wait_shared()
    members.write_and_read()
    offsets = show(members, "--offsets")
    assert offsets.count(members.topic) == PARTITIONS


@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
def test_a_group_is_migrated_there_and_back(members: JavaMembers, assignor: str) -> None:
    """Members of both protocols share the partitions; the group changes its type and back."""
    members.assignor = f"org.apache.kafka.clients.consumer.{assignor}Assignor"
    old = [members.start("classic") for _ in range(2)]
    members.wait_shared()
    members.write_and_read()
    new = [members.start("consumer")]
    members.wait_shared()
    members.write_and_read()
    members.stop(old.pop())
    new.append(members.start("consumer"))
    members.wait_shared()
    members.write_and_read()
    members.stop(old.pop())
    members.wait_shared()
    old.append(members.start("classic"))
    members.wait_shared()
    members.write_and_read()
    for member in new:
        members.stop(member)
    members.wait_shared()
    members.write_and_read()
    listed = run_tool(
        GROUPS, "--bootstrap-server", members.bootstrap, "--list", "--type", "classic"
    )
    assert members.group in listed.split()


def test_tools_manage_groups(members: JavaMembers) -> None:
    """They are listed by type and state, configured, reset and deleted."""
    server = ("--bootstrap-server", members.bootstrap)
    of_group = ("--entity-type", "groups", "--entity-name", members.group)
    setting = "consumer.session.timeout.ms=50000"
    run_tool(CONFIGS, *server, *of_group, "--alter", "--add-config", setting)
    assert setting in run_tool(CONFIGS, *server, *of_group, "--describe")
    member = members.start("consumer")
    members.wait_shared()
    members.write_and_read()
    listed = run_tool(GROUPS, *server, "--list", "--type", "consumer", "--state", "stable")
    assert members.group in listed
    of_topic = ("--group", members.group, "--topic", members.topic)
    reset = ("--reset-offsets", *of_topic, "--to-earliest", "--execute")
    assert "is inactive, but the current state is Stable" in run_tool(GROUPS, *server, *reset)
    members.stop(member)
    assert members.topic in run_tool(GROUPS, *server, *reset)
    assert members.group in run_tool(GROUPS, *server, "--delete", "--group", members.group)
    assert members.group not in run_tool(GROUPS, *server, "--list").split()
