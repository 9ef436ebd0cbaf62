"""Streams groups (KIP-1071) as Kafka's own tool, kafka-streams-groups.sh, sees and changes them."""

from collections.abc import Iterator

import pytest

from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.raw_client import RawClient
from compat_tests.raw_routes import GROUP, Home, address_of
from compat_tests.test_stock_suites import alter
from compat_tests.test_streams_heartbeats import AT_ONCE, GROUP_RESOURCE, PARTITIONS, Application
from kwire.errors import ErrorCode
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.fixture
def app(bootstrap: str, names: Names) -> Iterator[Application]:
    """An application of one member, which has committed its place in one partition."""
    source, group = names.topic("source"), names.group("app")
    create_topics(bootstrap, source, partitions=PARTITIONS)
    with RawClient(bootstrap) as raw:
        assert alter(raw, GROUP_RESOURCE, group, **AT_ONCE) == "NONE"
        wait_until(lambda: address_of(Home(GROUP, group), raw.ask) is not None)
        application = Application(raw, group, source)
        application.wait_for(lambda answer: answer.status == [])
        application.join("a")
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        request = OffsetCommitRequest(
            group_id=group,
            member_id="a",
            generation_id_or_member_epoch=application.epochs["a"],
            topics=[OffsetCommitRequestTopic(name=source, partitions=[partition])],
        )
        [answer] = raw.ask(request, 9).topics[0].partitions
        assert answer.error_code == ErrorCode.NONE
        yield application


def test_kafkas_tool_sees_and_changes_a_group(bootstrap: str, app: Application) -> None:
    """It is listed, described, emptied of offsets, and deleted."""
    at, of = ("--bootstrap-server", bootstrap), ("--group", app.group)
    assert app.group in run_tool(TOOL, *at, "--list").split()
    state = run_tool(TOOL, *at, "--describe", *of, "--state", "--verbose").split()
    assert state[-5:] == ["sticky", "Stable", "2", "2", "1"]
    members = run_tool(TOOL, *at, "--describe", *of, "--members", "--verbose")
    assert "process of a" in members
    assert "ACTIVE: 0:[0,1,2,3]; TARGET-ACTIVE: 0:[0,1,2,3];" in members
    offsets = run_tool(TOOL, *at, "--describe", *of, "--offsets")
    assert [app.source, "0", "0"] in [line.split()[1:] for line in offsets.splitlines()]
    app.leave("a")
    assert "Empty" in run_tool(TOOL, *at, "--describe", *of, "--state")
    deleted = run_tool(TOOL, *at, *of, "--delete-offsets", "--input-topic", app.source)
    assert "Request succeeded for deleting offsets" in deleted
    assert "was successful" in run_tool(TOOL, *at, *of, "--delete")
    assert app.group not in run_tool(TOOL, *at, "--list").split()
