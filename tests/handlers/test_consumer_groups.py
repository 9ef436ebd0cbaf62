"""ConsumerGroupHeartbeat and ConsumerGroupDescribe through a server, and what else sees groups."""

import threading
from pathlib import Path

import pytest
import re2

from kwire.errors import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.support.asking import error_of
from tests.support.in_process import running_server
from tests.support.threads import threads_that_call

GROUP = "billing"
TOPIC = "orders"
SETTINGS = {"offsets.topic.num.partitions": "3", "num.partitions": "1"}
JOIN = ConsumerGroupHeartbeatRequest(
    group_id=GROUP,
    member_id="a",
    rebalance_timeout_ms=10_000,
    subscribed_topic_names=[TOPIC],
    topic_partitions=[],
)


async def prepare(client) -> None:
    """A topic of two partitions, and the topic of the groups."""
    await client.topic(TOPIC, partitions=2)
    await error_of(client.find_coordinator(GROUP))


async def test_a_member_joins_and_is_described(tmp_path: Path):
    """It has every partition; a group that doesn't exist, and one of another kind, isn't found."""
    async with running_server(tmp_path, SETTINGS) as server:
        client = await server.connect()
        await prepare(client)
        joined = await client.request(JOIN, 1, ConsumerGroupHeartbeatResponse)
        assert joined.error_code == 0
        [has] = joined.assignment.topic_partitions
        assert has.partitions == [0, 1]
        describe = ConsumerGroupDescribeRequest(
            group_ids=[GROUP, "nobody", ""], include_authorized_operations=True
        )
        answer = await client.request(describe, 1, ConsumerGroupDescribeResponse)
        known, unknown, empty = answer.groups
        assert (known.group_state, known.assignor_name) == ("Stable", "uniform")
        assert known.authorized_operations == 0b1101_0100_1000  # as Kafka: bits 3, 6, 8, 10, 11
        [member] = known.members
        assert member.assignment == member.target_assignment
        assert [t.topic_name for t in member.assignment.topic_partitions] == [TOPIC]
        assert ErrorCode(unknown.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
        assert ErrorCode(empty.error_code) is ErrorCode.INVALID_GROUP_ID
        listed = await client.request(
            ListGroupsRequest(types_filter=["Consumer"]), 5, ListGroupsResponse
        )
        assert [(g.group_id, g.group_type) for g in listed.groups] == [(GROUP, "consumer")]
        await client.aclose()


@pytest.mark.parametrize("switch", ["setting", "feature"])
async def test_the_protocol_can_be_switched_off(tmp_path: Path, switch: str):
    """By the setting, and by the level of group.version that clients go by."""
    settings = dict(SETTINGS)
    if switch == "setting":
        settings["group.coordinator.rebalance.protocols"] = "classic"
    async with running_server(tmp_path, settings) as server:
        client = await server.connect()
        await prepare(client)
        if switch == "feature":
            update = UpdateFeaturesRequest(
                feature_updates=[
                    FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
                ]
            )
            changed = await client.request(update, 2, UpdateFeaturesResponse)
            assert changed.error_code == 0
        answer = await client.request(JOIN, 1, ConsumerGroupHeartbeatResponse)
        assert ErrorCode(answer.error_code) is ErrorCode.UNSUPPORTED_VERSION
        await client.aclose()


async def test_the_feature_is_finalised(tmp_path: Path):
    """Clients look for it before they use the protocol."""
    async with running_server(tmp_path, SETTINGS) as server:
        client = await server.connect()
        ask = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = await client.request(ask, 4, ApiVersionsResponse)
        levels = {f.name: f.max_version_level for f in answer.finalized_features}
        assert levels["group.version"] == 1
        await client.aclose()


async def test_a_group_has_settings_of_its_own(tmp_path: Path):
    """They hold from the next heartbeat on."""
    async with running_server(tmp_path, SETTINGS) as server:
        client = await server.connect()
        await prepare(client)
        resource = AlterConfigsResource(
            resource_type=32,
            resource_name=GROUP,
            configs=[
                AlterableConfig(name="consumer.session.timeout.ms", value="50000"),
                AlterableConfig(name="consumer.heartbeat.interval.ms", value="6000"),
                AlterableConfig(name="consumer.assignment.interval.ms", value="0"),
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        altered = await client.request(request, 1, IncrementalAlterConfigsResponse)
        assert altered.responses[0].error_code == 0
        own = server.broker.groups.surroundings.settings_of(GROUP)
        assert own.session_timeout_ms == 50_000
        assert own.heartbeat_interval_ms == 6_000
        assert own.assignment_interval_ms == 0
        common = server.broker.groups.surroundings.settings_of("another")
        assert common.session_timeout_ms == 45_000
        await client.aclose()


async def test_members_are_still_there_after_a_restart(tmp_path: Path):
    """They go on at their epoch."""
    async with running_server(tmp_path, SETTINGS) as server:
        client = await server.connect()
        await prepare(client)
        joined = await client.request(JOIN, 1, ConsumerGroupHeartbeatResponse)
        await client.aclose()
    async with running_server(tmp_path, SETTINGS) as server:
        client = await server.connect()
        go_on = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="a", member_epoch=joined.member_epoch
        )
        while True:
            answer = await client.request(go_on, 1, ConsumerGroupHeartbeatResponse)
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
        assert answer.error_code == 0
        assert answer.member_epoch == joined.member_epoch
        await client.aclose()


async def test_an_expression_is_compiled_in_a_thread(tmp_path: Path, monkeypatch):
    """Compiling takes milliseconds, and the first expression loads the library."""
    threads = threads_that_call(monkeypatch, re2, "compile")
    async with running_server(tmp_path, SETTINGS) as server:
        client = await server.connect()
        await prepare(client)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="a",
            rebalance_timeout_ms=10_000,
            subscribed_topic_regex="ord[a-z]*",
            topic_partitions=[],
        )
        answer = await client.request(request, 1, ConsumerGroupHeartbeatResponse)
        assert not answer.error_code
        await client.aclose()
    assert threads
    assert threading.main_thread() not in threads
