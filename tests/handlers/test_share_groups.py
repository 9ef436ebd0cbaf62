"""The APIs of share groups over the wire; what they answer is what Apache Kafka 4.4.0 answers."""

import pytest
import trio

from kwire.broker.group_state_work import AT_ONCE, do_state_work
from kwire.budget import slices
from kwire.coordinator.effects import Effects, StateWork
from kwire.errors import ErrorCode
from kwire.protocol.messages import (
    alter_share_group_offsets,
    consumer_group_heartbeat,
    create_partitions,
    delete_groups,
    delete_share_group_offsets,
    delete_topics,
    describe_groups,
    describe_share_group_offsets,
    incremental_alter_configs,
    join_group,
    list_groups,
    share_group_describe,
    share_group_heartbeat,
    update_features,
)
from tests.support.asking import error_of
from tests.support.in_process import running_server

GROUP = "workers"
TOPIC = "orders"
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.assignment.interval.ms": "0",
}
NO_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Asking:
    """A client that knows the APIs of share groups by short names."""

    def __init__(self, server) -> None:
        self.server = server

    async def heartbeat(self, member_id, epoch, topics=None, group=GROUP):
        """A member's heartbeat."""
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
        )
        response = share_group_heartbeat.ShareGroupHeartbeatResponse
        return await self.server.request(request, 1, response)

    async def join(self, member_id="a", group=GROUP):
        """Join, and go on until there are partitions; the answer that has them."""
        answer = await self.heartbeat(member_id, 0, [TOPIC], group)
        while not answer.assignment.topic_partitions:
            answer = await self.heartbeat(member_id, answer.member_epoch, [TOPIC], group)
        return answer

    async def describe(self, *groups):
        """The groups' descriptions."""
        request = share_group_describe.ShareGroupDescribeRequest(
            group_ids=list(groups), include_authorized_operations=True
        )
        response = share_group_describe.ShareGroupDescribeResponse
        return (await self.server.request(request, 1, response)).groups

    async def offsets(self, topics=None, group=GROUP):
        """A group's offsets: (topic, partition) → (start offset, lag)."""
        api = describe_share_group_offsets
        wanted = api.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
        request = api.DescribeShareGroupOffsetsRequest(groups=[wanted])
        answer = await self.server.request(request, 1, api.DescribeShareGroupOffsetsResponse)
        [told] = answer.groups
        assert not told.error_code
        return {
            (topic.topic_name, row.partition_index): (row.start_offset, row.lag)
            for topic in told.topics
            for row in topic.partitions
        }

    async def alter(self, offsets, group=GROUP):
        """Alter offsets; the errors of the whole and of each partition."""
        api = alter_share_group_offsets
        topics: dict[str, list] = {}
        for (name, index), offset in offsets.items():
            row = api.AlterShareGroupOffsetsRequestPartition(
                partition_index=index, start_offset=offset
            )
            topics.setdefault(name, []).append(row)
        request = api.AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                api.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=rows)
                for name, rows in topics.items()
            ],
        )
        answer = await self.server.request(request, 0, api.AlterShareGroupOffsetsResponse)
        return ErrorCode(answer.error_code), {
            (topic.topic_name, row.partition_index): ErrorCode(row.error_code)
            for topic in answer.responses
            for row in topic.partitions
        }

    async def delete_offsets(self, *topics, group=GROUP):
        """Delete offsets; the errors of the whole and of each topic."""
        api = delete_share_group_offsets
        named = [api.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
        request = api.DeleteShareGroupOffsetsRequest(group_id=group, topics=named)
        answer = await self.server.request(request, 0, api.DeleteShareGroupOffsetsResponse)
        errors = {topic.topic_name: ErrorCode(topic.error_code) for topic in answer.responses}
        return ErrorCode(answer.error_code), errors

    async def delete(self, *groups):
        """Delete groups; the error of each."""
        request = delete_groups.DeleteGroupsRequest(groups_names=list(groups))
        answer = await self.server.request(request, 2, delete_groups.DeleteGroupsResponse)
        return {result.group_id: ErrorCode(result.error_code) for result in answer.results}

    async def listed(self):
        """The share groups that ListGroups shows, with their states."""
        request = list_groups.ListGroupsRequest(types_filter=["Share"])
        answer = await self.server.request(request, 5, list_groups.ListGroupsResponse)
        return {one.group_id: (one.group_state, one.protocol_type) for one in answer.groups}


@pytest.fixture
async def server(tmp_path):
    """A running broker with the topic ``orders`` of two partitions."""
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic(TOPIC, partitions=2)
        await error_of(running.find_coordinator(GROUP))
        yield running


@pytest.fixture
def asking(server) -> Asking:
    """A client of the broker."""
    return Asking(server)


async def test_members_share_a_topic(asking):
    """They are described with their partitions, and the group is listed."""
    first = await asking.join("a")
    [topic] = first.assignment.topic_partitions
    assert topic.partitions == [0, 1]
    second = await asking.join("b")
    [topic] = second.assignment.topic_partitions
    assert len(topic.partitions) == 1
    known, unknown, empty = await asking.describe(GROUP, "nobody", "")
    assert (known.group_state, known.assignor_name) == ("Stable", "simple")
    assert known.authorized_operations == 0b1101_0100_1000  # as Kafka: bits 3, 6, 8, 10, 11
    assert {member.member_id for member in known.members} == {"a", "b"}
    [shown] = next(m for m in known.members if m.member_id == "b").assignment.topic_partitions
    assert (shown.topic_name, shown.partitions) == (TOPIC, topic.partitions)
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID
    assert await asking.listed() == {GROUP: ("Stable", "share")}


async def test_share_groups_can_be_switched_off(tmp_path):
    """By the level of share.version, unless the setting of the protocols has them."""
    async with running_server(tmp_path, SETTINGS) as server:
        asking = Asking(server)
        lowered = update_features.FeatureUpdateKey(
            feature="share.version", max_version_level=0, upgrade_type=2
        )
        request = update_features.UpdateFeaturesRequest(feature_updates=[lowered])
        changed = await server.request(request, 2, update_features.UpdateFeaturesResponse)
        assert changed.error_code == 0
        answer = await asking.heartbeat("a", 0, [TOPIC])
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        [group] = await asking.describe(GROUP)
        assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
        code, _ = await asking.alter({(TOPIC, 0): 1})
        assert code is ErrorCode.UNSUPPORTED_VERSION


async def test_a_group_is_of_one_kind(asking, server):
    """Each kind's requests are refused by the others."""
    await asking.join()
    api = consumer_group_heartbeat
    consumer = api.ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="c",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    refused = await server.request(consumer, 1, api.ConsumerGroupHeartbeatResponse)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    classic = join_group.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    refused = await server.request(classic, 5, join_group.JoinGroupResponse)
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    describe = describe_groups.DescribeGroupsRequest(groups=[GROUP])
    answer = await server.request(describe, 6, describe_groups.DescribeGroupsResponse)
    assert answer.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    consumer.group_id = "consumers"
    assert not (await server.request(consumer, 1, api.ConsumerGroupHeartbeatResponse)).error_code
    refused = await asking.heartbeat("a", 0, [TOPIC], "consumers")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_are_altered_described_and_deleted(asking):
    """Of a group that begins with it; the errors are Kafka's."""
    code, errors = await asking.alter({(TOPIC, 1): 5, (TOPIC, 9): 4, ("nothing", 0): 0})
    assert code is ErrorCode.NONE
    assert errors == {
        (TOPIC, 1): ErrorCode.NONE,
        (TOPIC, 9): NO_PARTITION,
        ("nothing", 0): NO_PARTITION,
    }
    assert await asking.listed() == {GROUP: ("Empty", "share")}
    assert await asking.offsets() == {(TOPIC, 1): (5, -5)}
    api = describe_share_group_offsets
    topics = [api.DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[0, 1, 7])]
    topics += [api.DescribeShareGroupOffsetsRequestTopic(topic_name="nothing", partitions=[0])]
    unknown = (-1, -1)
    assert await asking.offsets(topics) == {
        (TOPIC, 0): unknown,
        (TOPIC, 1): (5, -5),
        (TOPIC, 7): unknown,
        ("nothing", 0): unknown,
    }
    assert await asking.offsets(group="nobody") == {}
    assert await asking.delete_offsets(TOPIC, "nothing") == (
        ErrorCode.NONE,
        {TOPIC: ErrorCode.NONE, "nothing": NO_PARTITION},
    )
    assert await asking.offsets() == {}
    assert await asking.delete_offsets(TOPIC) == (ErrorCode.NONE, {TOPIC: NO_PARTITION})
    assert (await asking.delete_offsets(TOPIC, group="nobody"))[0] is ErrorCode.GROUP_ID_NOT_FOUND
    for change in (asking.alter({(TOPIC, 0): 1}, ""), asking.delete_offsets(TOPIC, group="")):
        assert (await change)[0] is ErrorCode.INVALID_GROUP_ID


async def test_a_group_with_members_keeps_its_offsets(asking):
    """It can't be deleted either, until they leave."""
    joined = await asking.join()
    assert (await asking.alter({(TOPIC, 0): 1}))[0] is ErrorCode.NON_EMPTY_GROUP
    assert (await asking.delete_offsets(TOPIC))[0] is ErrorCode.NON_EMPTY_GROUP
    assert await asking.delete(GROUP) == {GROUP: ErrorCode.NON_EMPTY_GROUP}
    left = await asking.heartbeat("a", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert set(await asking.offsets()) == {(TOPIC, 0), (TOPIC, 1)}
    assert await asking.delete(GROUP, "nobody") == {
        GROUP: ErrorCode.NONE,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert await asking.listed() == {}
    assert await asking.offsets() == {}
    gone = await asking.heartbeat("a", joined.member_epoch)
    assert gone.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_added_partitions_begin_at_their_first_record(asking, server):
    """Records that come before the members know of a partition aren't missed."""
    joined = await asking.join()
    api = create_partitions
    more = api.CreatePartitionsTopic(name=TOPIC, count=3, assignments=None)
    request = api.CreatePartitionsRequest(topics=[more], timeout_ms=10_000)
    await server.request(request, 3, api.CreatePartitionsResponse)
    offsets: dict = {}
    while (TOPIC, 2) not in offsets:
        await asking.heartbeat("a", joined.member_epoch)
        offsets = await asking.offsets()
    assert offsets == {(TOPIC, 0): (-1, -1), (TOPIC, 1): (-1, -1), (TOPIC, 2): (0, 0)}


async def test_a_deleted_topic_is_forgotten(asking, server):
    """The group no longer has its partitions' states."""
    await asking.join()
    api = delete_topics
    request = api.DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=10_000)
    await server.request(request, 5, api.DeleteTopicsResponse)
    while await asking.offsets():
        pass


async def test_a_group_has_settings_of_its_own(asking, server):
    """A session that is too long for the broker is refused, another one counts."""
    api = incremental_alter_configs
    group = 32

    async def alter(value: str) -> ErrorCode:
        row = api.AlterableConfig(name="share.session.timeout.ms", config_operation=0, value=value)
        resource = api.AlterConfigsResource(resource_type=group, resource_name=GROUP, configs=[row])
        request = api.IncrementalAlterConfigsRequest(resources=[resource])
        answer = await server.request(request, 1, api.IncrementalAlterConfigsResponse)
        return ErrorCode(answer.responses[0].error_code)

    assert await alter("60001") is ErrorCode.INVALID_CONFIG
    assert await alter("44999") is ErrorCode.INVALID_CONFIG
    assert await alter("50000") is ErrorCode.NONE
    settings = server.broker.groups.surroundings.share_settings_of(GROUP)
    assert (settings.session_timeout_ms, settings.max_size) == (50_000, 200)


async def test_others_have_their_turn_while_many_states_begin(asking, server, monkeypatch):
    monkeypatch.setattr(slices, "SLICE_S", 0)
    await asking.join()
    topic_id = server.broker.image.topics_by_name[TOPIC].topic_id
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    starts = dict.fromkeys([(topic_id, 0)], 0) | {(topic_id, n): None for n in range(1, 200)}
    work = StateWork("others", 1, starts, lambda failures, now_ms: Effects())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        assert not await do_state_work(server.broker.persister, work)
        assert turns > len(starts) / AT_ONCE / 2
        nursery.cancel_scope.cancel()
