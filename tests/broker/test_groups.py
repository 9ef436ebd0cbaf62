"""The coordinators of groups: finding, loading, forgetting."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.coordinator_lookup import partition_for
from kwire.broker.groups import Groups
from kwire.coordinator.effects import Effects, Job
from kwire.coordinator.group import EMPTY_STATE
from kwire.coordinator.joining import Client
from kwire.coordinator.records import OffsetCommitValue, offset_commit
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import apply, from_json, snapshot, to_json
from kwire.metadata.controller import add_partitions
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest
from kwire.runtime import Reply
from tests.support.in_process import RunningServer, running_server

SETTINGS = {"offsets.topic.num.partitions": "3", "num.partitions": "1"}
DELETE_VERSION = 3


@pytest.mark.parametrize(
    ("group_id", "code"),
    [("", 0), ("a", 97), ("billing", -109829509), ("\U0001f600", 1772899), ("Aa", 2112)],
)
def test_a_group_lives_where_kafka_puts_it(group_id, code):
    """The absolute value of Java's String.hashCode, modulo the partitions."""
    assert partition_for(group_id, 50) == abs(code) % 50


@pytest.mark.parametrize(
    ("name", "partitions", "home"),
    [("classic-group", 3, 0), ("next-gen-group", 3, 1), ("tx-a", 2, 0), ("tx-open", 2, 1)],
)
def test_where_a_real_kafka_put_them(name, partitions, home):
    """Groups and transactional ids of the directory that Apache Kafka 4.4.0 wrote."""
    assert partition_for(name, partitions) == home


def _commit(server: RunningServer, group_id: str, topic: str, offset: int) -> None:
    home = server.broker.groups.coordinator(group_id)
    effects = Effects()
    now_ms = server.broker.now_ms()
    value = OffsetCommitValue(offset=offset, commit_timestamp=now_ms)
    effects.records.append(offset_commit(group_id, topic, 0, value))
    home.carry_out(effects)


def _is_loaded(groups: Groups) -> bool:
    try:
        groups.all_coordinators()
    except KafkaError:
        return False
    return True


async def test_offsets_survive_a_restart(tmp_path: Path):
    """Every partition is loaded when the broker starts."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        for number in range(10):
            _commit(server, f"group-{number}", "t", number)
    async with running_server(tmp_path, SETTINGS) as server:
        groups = server.broker.groups
        while not _is_loaded(groups):
            await trio.lowlevel.checkpoint()
        for number in range(10):
            home = groups.coordinator(f"group-{number}").coordinator
            assert home.state_of(f"group-{number}") == EMPTY_STATE
            assert home.offsets.of(f"group-{number}").get("t", 0).offset == number


async def test_a_group_that_is_being_loaded_says_so(tmp_path: Path):
    """COORDINATOR_LOAD_IN_PROGRESS; heartbeats are answered as if all were well."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        _commit(server, "g", "t", 5)
        server.broker.groups = Groups(server.broker)
        assert not _is_loaded(server.broker.groups)
        with pytest.raises(KafkaError) as raised:
            server.broker.groups.coordinator("g")
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        client = await server.connect()
        response = await client.request(HeartbeatRequest(group_id="g"), 4, HeartbeatResponse)
        assert response.error_code == ErrorCode.NONE


async def test_a_partition_that_is_not_open_yet_is_being_loaded(tmp_path: Path, monkeypatch):
    """Clients of a topic that has just been created try again, instead of giving up."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()

        def not_yet(topic: str, index: int):
            return None

        monkeypatch.setattr(server.broker, "partition_if_served", not_yet)
        with pytest.raises(KafkaError) as refused:
            server.broker.groups.coordinator("billing")
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        monkeypatch.undo()


async def test_without_the_topic_nobody_coordinates(tmp_path: Path):
    """NOT_COORDINATOR sends clients to ask FindCoordinator, which creates it."""
    async with running_server(tmp_path, SETTINGS) as server:
        with pytest.raises(KafkaError) as raised:
            server.broker.groups.coordinator("g")
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        assert server.broker.groups.all_coordinators() == []


async def _delete(server: RunningServer, name: str) -> None:
    client = await server.connect()
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
    response = await client.request(request, DELETE_VERSION, DeleteTopicsResponse)
    assert [r.error_code for r in response.responses] == [ErrorCode.NONE]


async def test_offsets_go_with_their_topic(tmp_path: Path):
    """Those of other topics stay."""
    async with running_server(tmp_path, SETTINGS) as server:
        client = await server.connect()
        wanted = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="u")]
        await client.request(MetadataRequest(topics=wanted), 9, MetadataResponse)
        await server.broker.groups.ensure_topic()
        _commit(server, "g", "t", 5)
        _commit(server, "g", "u", 6)
        await _delete(server, "t")
        offsets = server.broker.groups.coordinator("g").coordinator.offsets.of("g")
        assert {topic: o.offset for topic, _, o in offsets.items()} == {"u": 6}


async def test_groups_go_with_the_topic_that_holds_them(tmp_path: Path):
    """Deleting ``__consumer_offsets`` forgets every group; it is created again when needed."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        _commit(server, "g", "t", 5)
        await _delete(server, "__consumer_offsets")
        await server.broker.groups.ensure_topic()
        assert server.broker.groups.coordinator("g").coordinator.state_of("g") is None


async def test_old_offsets_expire_without_being_asked(tmp_path: Path):
    """Every offsets.retention.check.interval.ms, those past offsets.retention.minutes."""
    settings = SETTINGS | {
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "1",
    }
    async with running_server(tmp_path, settings) as server:
        await server.broker.groups.ensure_topic()
        home = server.broker.groups.coordinator("g")
        effects = Effects()
        value = OffsetCommitValue(offset=1, commit_timestamp=server.broker.now_ms() - 60_000)
        effects.records.append(offset_commit("g", "t", 0, value))
        home.carry_out(effects)
        with trio.fail_after(5):
            while home.coordinator.state_of("g") is not None:
                await trio.lowlevel.checkpoint()


async def test_a_damaged_partition_loses_its_own_groups(tmp_path: Path):
    """They are told to look elsewhere; the groups of other partitions are there, and listed."""
    by_partition = {partition_for(f"group-{n}", 3): f"group-{n}" for n in range(10)}
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        for group_id in by_partition.values():
            _commit(server, group_id, "t", 7)
    [damaged] = (tmp_path / "__consumer_offsets-1").glob("*.log")
    content = bytearray(damaged.read_bytes())
    content[-3] ^= 0xFF
    damaged.write_bytes(content)
    async with running_server(tmp_path, SETTINGS) as server:
        groups = server.broker.groups
        while not _is_loaded(groups):
            await trio.lowlevel.checkpoint()
        with pytest.raises(KafkaError) as raised:
            groups.coordinator(by_partition[1])
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        client = await server.connect()
        asked = FindCoordinatorRequest(coordinator_keys=list(by_partition.values()))
        found = await client.request(asked, 4, FindCoordinatorResponse)
        assert {c.key: c.error_code for c in found.coordinators} == {
            by_partition[0]: ErrorCode.NONE,
            by_partition[1]: ErrorCode.COORDINATOR_NOT_AVAILABLE,
            by_partition[2]: ErrorCode.NONE,
        }
        listed = await client.request(ListGroupsRequest(), 5, ListGroupsResponse)
        assert listed.error_code == ErrorCode.NONE
        assert {g.group_id for g in listed.groups} == {by_partition[0], by_partition[2]}


def _begun(server: RunningServer, work: Callable[[], object]) -> list[object]:
    """Begin a job of a group's coordinator; what is handed in comes into the list."""
    handed_in: list[object] = []

    def hand_in(result: object, now_ms: int) -> Effects:
        handed_in.append(result)
        return Effects()

    effects = Effects()
    effects.start_job(Job("some work", work, hand_in))
    server.broker.groups.coordinator("g").carry_out(effects)
    return handed_in


async def test_long_work_is_done_while_others_have_their_turn(tmp_path: Path):
    """It is in a thread, and waits here for what the event loop does meanwhile."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        others_went_on = threading.Event()
        handed_in = _begun(server, lambda: others_went_on.wait(timeout=60))
        await trio.lowlevel.checkpoint()
        assert handed_in == []
        others_went_on.set()
        while not handed_in:
            await trio.lowlevel.checkpoint()
        assert handed_in == [True]


async def test_work_that_fails_is_logged_and_handed_in_as_its_exception(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """It is a bug; the coordinator tries again."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        handed_in = _begun(server, lambda: 1 // 0)
        while not handed_in:
            await trio.lowlevel.checkpoint()
        [error] = handed_in
        assert isinstance(error, ZeroDivisionError)
        assert server.broker.bugs == [error]
        server.broker.bugs.clear()
    assert "failed: some work" in caplog.text


async def test_a_coordinator_that_is_gone_is_handed_in_nothing(tmp_path: Path):
    """The broker stops while the work is done; what would come next isn't begun."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        may_end = threading.Event()
        handed_in = _begun(server, lambda: may_end.wait(timeout=60))
        never_begun = _begun(server, list)
        await trio.lowlevel.checkpoint()
        server.broker.groups.close()
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
    assert handed_in == never_begun == []


async def test_more_partitions_change_no_groups_home(tmp_path: Path):
    """Not while the broker runs, nor after a restart, nor with a snapshot of the metadata."""
    groups = [f"group-{n}" for n in range(10)]
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        indexes = [server.broker.groups.partition_index(group_id) for group_id in groups]
        await server.broker.commit(
            lambda image: add_partitions(image, "__consumer_offsets", 7, None, server.broker.random)
        )
        assert [server.broker.groups.partition_index(group_id) for group_id in groups] == indexes
        for group_id in groups:
            _commit(server, group_id, "t", 7)
        image = server.broker.image
        again = apply(MetadataImage(), from_json(to_json(snapshot(image))), image.revision)
        assert again.topics_by_name == image.topics_by_name
    async with running_server(tmp_path, SETTINGS) as server:
        while not _is_loaded(server.broker.groups):
            await trio.lowlevel.checkpoint()
        for group_id in groups:
            home = server.broker.groups.coordinator(group_id)
            assert home.coordinator.state_of(group_id) == EMPTY_STATE


async def test_a_session_that_is_over_does_not_count(tmp_path: Path, mock_clock):
    """The next request for the group finds it empty, although no timer has had its turn yet."""
    settings = SETTINGS | {"group.initial.rebalance.delay.ms": "0"}
    async with running_server(tmp_path, settings) as server:
        groups = server.broker.groups
        await groups.ensure_topic()
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        )
        home = groups.coordinator("g")
        client = Client("client", "/127.0.0.1", 3)
        home.carry_out(home.coordinator.members.join(request, client, Reply(), groups.now_ms()))
        [member_id] = home.coordinator.groups["g"].members
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
        home.carry_out(home.coordinator.members.sync(sync, Reply(), groups.now_ms()))
        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
            groups.coordinator("g").coordinator.delete("g")
        mock_clock.jump(11)
        home = groups.coordinator("g")
        home.carry_out(home.coordinator.delete("g"))
        assert home.coordinator.state_of("g") is None
