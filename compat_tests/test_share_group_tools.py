"""Share groups (KIP-932) as Kafka's own tools see and change them, and heartbeats one by one."""

import re

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from compat_tests.clients import QUIET, produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.raw_client import RawConnection
from kwire.errors import ErrorCode
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"

RECORDS = 60
PARTITIONS = 3
SETTLES_S = 60


@pytest.fixture
def topic(bootstrap: str, names: Names) -> str:
    """A topic with records."""
    name = names.topic("queue")
    create_topics(bootstrap, name, partitions=PARTITIONS)
    produce_confluent(bootstrap, name, [(None, b"%d" % n, []) for n in range(RECORDS)])
    return name


@pytest.fixture
def group(bootstrap: str, names: Names) -> str:
    """A share group that begins with the first record of each partition."""
    name = names.group("workers")
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    admin.incremental_alter_configs([resource])[resource].result()
    return name


def test_kafkas_tools_see_and_change_a_group(bootstrap: str, group: str, topic: str) -> None:
    """The console consumer reads; the group is listed, described, reset, and deleted."""
    at, of = ("--bootstrap-server", bootstrap), ("--group", group)
    said = run_tool(
        CONSOLE, *at, "--topic", topic, *of, "--max-messages", str(RECORDS), "--timeout-ms", "60000"
    )
    assert sorted(map(int, said.split())) == list(range(RECORDS))
    assert group in run_tool(GROUPS, *at, "--list").split()
    # The start offset may follow later: the lag already counts what is done after it.
    rows = offsets_of(run_tool(GROUPS, *at, "--describe", *of), topic)
    assert [lag for _, lag in rows] == [0, 0, 0]
    state = run_tool(GROUPS, *at, "--describe", *of, "--state")
    assert re.search(rf"{group} .* Empty +0", state), state
    reset = ("--reset-offsets", "--to-earliest", "--execute", "--topic", topic)
    run_tool(GROUPS, *at, *of, *reset)
    rows = offsets_of(run_tool(GROUPS, *at, "--describe", *of), topic)
    assert (sum(lag for _, lag in rows), [start for start, _ in rows]) == (RECORDS, [0, 0, 0])
    assert "Successful" in run_tool(GROUPS, *at, *of, "--delete-offsets", "--topic", topic)
    assert "successful" in run_tool(GROUPS, *at, *of, "--delete")
    assert group not in run_tool(GROUPS, *at, "--list").split()


def offsets_of(said: str, topic: str) -> list[tuple[int, int]]:
    """The start offset and the lag of each partition, as the tool shows them."""
    return [
        (int(start), int(lag)) for start, lag in re.findall(rf"{topic} +\d+ +(\d+) +(\d+)", said)
    ]


def test_kafkas_java_consumer_acknowledges(bootstrap: str, group: str, topic: str) -> None:
    """The VerifiableShareConsumer of Kafka's system tests reads everything."""
    said = run_tool(
        *(VERIFIABLE, "--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
        *("--max-messages", str(RECORDS), "--acknowledgement-mode", "sync"),
    )
    counts = re.findall(r'"offsets_acknowledged","count":(\d+)', said)
    assert sum(map(int, counts)) == RECORDS
    assert '"success":false' not in said


class Heartbeats:
    """Heartbeats of share group members, one by one."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._group = group
        self._connection = RawConnection(bootstrap)

    def beat(
        self, member_id: str, epoch: int, topics: list[str] | None = None
    ) -> ShareGroupHeartbeatResponse:
        """The answer to a heartbeat."""
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=topics,
        )
        answers: list[ShareGroupHeartbeatResponse] = []

        def is_answered() -> bool:
            answers.append(self._connection.ask(request, 1))
            return answers[-1].error_code not in LOADING

        wait_until(is_answered, timeout_s=SETTLES_S, what="the coordinator")
        return answers[-1]

    def refused(self, member_id: str, epoch: int, topics: list[str] | None = None) -> ErrorCode:
        """The error of a heartbeat."""
        return ErrorCode(self.beat(member_id, epoch, topics).error_code)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


LOADING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


def test_heartbeats_one_by_one(bootstrap: str, group: str, topic: str) -> None:
    """Epochs, fencing, checks of requests, and members that leave."""
    run_tool(GROUPS, "--bootstrap-server", bootstrap, "--list")  # the coordinators' topic is there
    member = Heartbeats(bootstrap, group)
    assert member.refused("a", 5) is ErrorCode.GROUP_ID_NOT_FOUND
    assert member.refused("a", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    for member_id, epoch, topics in (
        ("", 0, [topic]),
        (" ", 0, [topic]),
        ("a" * 37, 0, [topic]),
        ("a", 0, None),
        ("a", 0, []),
        ("a", -2, None),
    ):
        assert member.refused(member_id, epoch, topics) is ErrorCode.INVALID_REQUEST
    joined = member.beat("a", 0, [topic])
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "a", 2)
    latest = joined

    def has_all() -> bool:
        nonlocal latest
        latest = member.beat("a", latest.member_epoch, [topic])
        assert latest.assignment is not None
        partitions = [p for one in latest.assignment.topic_partitions for p in one.partitions]
        return partitions == list(range(PARTITIONS))

    wait_until(has_all, timeout_s=SETTLES_S, what="partitions")
    epoch = latest.member_epoch
    assert member.refused("a", epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert member.refused("b", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert member.beat("a", 0, [topic]).member_epoch == epoch
    left = member.beat("a", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert member.refused("a", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    member.close()
