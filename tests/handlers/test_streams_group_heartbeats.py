"""Members of streams groups over the wire, and the groups as they are described."""

import pytest

from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.errors import ErrorCode
from kwire.protocol.messages import (
    delete_groups,
    list_groups,
    streams_group_heartbeat,
    update_features,
)
from tests.support.asking import error_of
from tests.support.in_process import running_server
from tests.support.streams_group import CHANGELOG, GROUP, SETTINGS, TOPIC, StreamsClient

MISSING_INTERNAL_TOPICS = 3


@pytest.fixture
async def server(tmp_path):
    """A running broker with the topic ``orders`` of two partitions."""
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic(TOPIC, partitions=2)
        await error_of(running.find_coordinator(GROUP))
        yield running


async def test_a_member_gets_tasks_whose_internal_topics_its_heartbeat_creates(server):
    asking = StreamsClient(server)
    answer = await asking.join(stateful=True)
    [status] = answer.status
    assert (status.status_code, status.status_detail) == (
        MISSING_INTERNAL_TOPICS,
        f"Internal topics are missing: {CHANGELOG}",
    )
    assert len(server.broker.image.topics_by_name[CHANGELOG].partitions) == 2
    answer = await asking.beat(member_epoch=answer.member_epoch)
    assert (answer.status, answer.error_code) == ([], 0)
    assert [(t.subtopology_id, t.partitions) for t in answer.active_tasks] == [("0", [0, 1])]
    [group] = await asking.describe(GROUP)
    [store] = group.topology.subtopologies[0].state_changelog_topics
    assert (store.name, store.partitions, store.replication_factor) == (CHANGELOG, 2, 0)


async def test_a_client_without_the_right_to_create_is_told_so(tmp_path):
    """The topology's topics have to be visible, too; see compat_tests for all rights."""
    secured = {**SETTINGS, "authorizer.class.name": STANDARD_AUTHORIZER}
    async with running_server(tmp_path, {**secured, "super.users": "User:admin"}) as server:
        asking = StreamsClient(server)
        assert (await asking.join()).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        [group] = await asking.describe(GROUP)
        assert group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_group_is_described_listed_and_deleted(server):
    asking = StreamsClient(server)
    await asking.join(user_endpoint=streams_group_heartbeat.Endpoint(host="h", port=1))
    [group, again, unknown] = await asking.describe(GROUP, GROUP, "nobody")
    assert group == again
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert (group.assignor_name, group.topology.epoch) == ("sticky", 0)
    [member] = group.members
    assert (member.member_id, member.process_id, member.user_endpoint.port) == ("a", "a", 1)
    assert [t.partitions for t in member.assignment.active_tasks] == [[0, 1]]
    assert (unknown.error_code, unknown.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group nobody not found.",
    )
    request = list_groups.ListGroupsRequest(types_filter=["streams"])
    answer = await server.request(request, 5, list_groups.ListGroupsResponse)
    assert [(g.group_id, g.protocol_type) for g in answer.groups] == [(GROUP, "streams")]
    none = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"))
    await asking.beat(member_epoch=-1, **none)
    request = delete_groups.DeleteGroupsRequest(groups_names=[GROUP])
    answer = await server.request(request, 2, delete_groups.DeleteGroupsResponse)
    assert answer.results[0].error_code == ErrorCode.NONE
    [group] = await asking.describe(GROUP)
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_without_its_topics_shows_the_topology_as_it_came(server):
    asking = StreamsClient(server)
    await asking.join(topic="nowhere", stateful=True)
    [group] = await asking.describe(GROUP)
    assert group.group_state == "NotReady"
    [part] = group.topology.subtopologies
    assert (part.source_topics, part.state_changelog_topics[0].partitions) == (["nowhere"], 0)


async def test_the_settings_of_a_group_act_on_the_next_heartbeat(server):
    asking = StreamsClient(server)
    answer = await asking.join()
    assert answer.task_offset_interval_ms == 60_000
    await asking.set(
        **{
            "streams.task.offset.interval.ms": "20000",
            "streams.acceptable.recovery.lag": "7",
            "streams.num.standby.replicas": "1",
            "streams.rack.aware.assignment.tags": "zone",
        }
    )
    answer = await asking.beat(member_epoch=answer.member_epoch)
    assert (answer.task_offset_interval_ms, answer.acceptable_recovery_lag) == (20_000, 7)
    assert answer.member_epoch == 3
    assert "[zone]" in answer.status[0].status_detail
    await asking.set(**{"streams.initial.rebalance.delay.ms": "60000"})
    none = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"))
    await asking.beat(member_epoch=-1, **none)
    assert (await asking.join()).active_tasks == []


async def test_the_feature_switches_streams_groups_off(server):
    api = update_features
    update = api.FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=2)
    request = api.UpdateFeaturesRequest(feature_updates=[update])
    answer = await server.request(request, 1, api.UpdateFeaturesResponse)
    assert answer.error_code == ErrorCode.NONE
    asking = StreamsClient(server)
    assert (await asking.join()).error_code == ErrorCode.UNSUPPORTED_VERSION
    [group] = await asking.describe(GROUP)
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("__transaction_state", "Use of Kafka internal topics __transaction_state in"),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
async def test_topics_that_may_not_be_in_a_topology_are_named(server, topic, text):
    answer = await StreamsClient(server).join(topic=topic)
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert text in answer.error_message


async def test_a_member_of_many_names_is_refused(server):
    part = streams_group_heartbeat.Subtopology(subtopology_id="0" * 30_000, source_topics=[TOPIC])
    topology = streams_group_heartbeat.Topology(subtopologies=[part] * 40)
    answer = await StreamsClient(server).join(topology=topology)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "kwire.group.member.max.bytes" in answer.error_message


@pytest.mark.parametrize(
    "fields",
    [
        {"task_offsets": [streams_group_heartbeat.TaskOffset(subtopology_id="0")] * 20_000},
        {"active_tasks": [streams_group_heartbeat.TaskIds(subtopology_id="0")] * 20_000},
        {"standby_tasks": [streams_group_heartbeat.TaskIds(partitions=[0] * 70_000)]},
        {"client_tags": [streams_group_heartbeat.KeyValue(key="k", value="v" * 30_000)] * 40},
        {"topology": [streams_group_heartbeat.CopartitionGroup(source_topics=[0] * 1000)] * 70},
    ],
    ids=["task offsets", "active tasks", "standby tasks", "tags", "copartition groups"],
)
async def test_all_that_a_group_keeps_of_a_member_counts(server, fields):
    if "topology" in fields:
        part = streams_group_heartbeat.Subtopology(
            subtopology_id="0", source_topics=[TOPIC], copartition_groups=fields["topology"]
        )
        fields = {"topology": streams_group_heartbeat.Topology(subtopologies=[part])}
    answer = await StreamsClient(server).join(**fields)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "kwire.group.member.max.bytes" in answer.error_message


@pytest.mark.parametrize("is_ready", [True, False])
async def test_the_topologies_of_described_groups_count_for_the_largest_answer(tmp_path, is_ready):
    """A request of a few bytes names a group with a large topology often."""
    settings = {**SETTINGS, "kwire.response.max.bytes": "1048576"}
    async with running_server(tmp_path, settings) as server:
        if is_ready:
            await server.topic(TOPIC)
        await error_of(server.find_coordinator(GROUP))
        sinks = [f"{number:0200}" for number in range(500)]
        part = streams_group_heartbeat.Subtopology(
            subtopology_id="0", source_topics=[TOPIC], repartition_sink_topics=sinks
        )
        topology = streams_group_heartbeat.Topology(subtopologies=[part])
        asking = StreamsClient(server)
        assert (await asking.join(topology=topology)).error_code == ErrorCode.NONE
        [group] = await asking.describe(GROUP)
        assert group.topology is not None
        with pytest.raises(AssertionError, match="the connection was closed"):
            await asking.describe(*[GROUP] * 10)
