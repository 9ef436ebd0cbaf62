"""What a streams group's members are answered (KIP-1071), heartbeat by heartbeat.

The members send what Kafka Streams sends, at the times that the test chooses.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.conftest import Names
from compat_tests.raw_client import RawClient
from compat_tests.raw_routes import GROUP, Home, address_of
from compat_tests.test_stock_suites import alter
from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

GROUP_RESOURCE = 32
VERSION = 1
PARTITIONS = 4
AT_ONCE = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}
NOT_YET = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
STALE, NO_SOURCES, NO_INTERNAL, SHUTDOWN, DELAYED, NO_TAGS = 0, 1, 3, 4, 5, 6


class Application:
    """One group of members, each with the epoch and the tasks of its last answer."""

    def __init__(self, raw: RawClient, group: str, source: str) -> None:
        self.raw, self.group, self.source = raw, group, source
        self.epochs: dict[str, int] = {}
        self.tasks: dict[str, dict[str, list[TaskIds]]] = {}

    def topology(self, *, epoch: int = 0, changelog: str | None = None) -> Topology:
        """One subtopology, which reads the source."""
        stores = [TopicInfo(name=changelog)] if changelog else []
        part = Subtopology(
            subtopology_id="0", source_topics=[self.source], state_changelog_topics=stores
        )
        return Topology(epoch=epoch, subtopologies=[part])

    def join(self, member_id: str, **fields: Any) -> Any:
        """A member joins."""
        self.tasks[member_id] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        first = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": self.topology(),
            "process_id": f"process of {member_id}",
        }
        return self.beat(member_id, **{**first, **fields})

    def beat(self, member_id: str, version: int = VERSION, **fields: Any) -> Any:
        """A member goes on, with the tasks that it was given."""
        given = {
            "group_id": self.group,
            "member_id": member_id,
            "member_epoch": self.epochs.get(member_id, 0),
            **self.tasks.get(member_id, {}),
            **fields,
        }
        answer = self.raw.ask(StreamsGroupHeartbeatRequest(**given), version)
        if not answer.error_code:
            self.epochs[member_id] = answer.member_epoch
            if answer.active_tasks is not None:
                for role in ("active_tasks", "standby_tasks", "warmup_tasks"):
                    listed = getattr(answer, role)
                    self.tasks[member_id][role] = [
                        TaskIds(subtopology_id=t.subtopology_id, partitions=t.partitions)
                        for t in listed
                    ]
        return answer

    def leave(self, member_id: str, **fields: Any) -> Any:
        """A member leaves."""
        none = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"))
        return self.beat(member_id, **{"member_epoch": -1, **none, **fields})

    def wait_for(self, is_seen: Callable[[Any], bool], **fields: Any) -> None:
        """Wait until the coordinator knows of a change; the group isn't there afterwards.

        In Kafka it learns of topics and settings after everybody else.
        """

        def probe() -> bool:
            answer = self.join("probe", **fields)
            if answer.error_code in NOT_YET:
                return False
            assert refusal(answer) == ("NONE", "")
            self.leave("probe")
            request = DeleteGroupsRequest(groups_names=[self.group])
            assert self.raw.ask(request, 2).results[0].error_code == ErrorCode.NONE
            return is_seen(answer)

        wait_until(probe)

    def has(self, member_id: str, role: str = "active_tasks") -> list[int]:
        """The partitions of a member's tasks."""
        return sorted(p for one in self.tasks[member_id][role] for p in one.partitions)

    def describe(self, version: int = VERSION) -> Any:
        """The description of the group."""
        request = StreamsGroupDescribeRequest(group_ids=[self.group])
        return self.raw.ask(request, version).groups[0]


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawClient]:
    """A client for single requests."""
    with RawClient(bootstrap) as client:
        yield client


@pytest.fixture
def app(bootstrap: str, names: Names, raw: RawClient) -> Application:
    """An application whose changes are assigned at once; its source has four partitions."""
    source, group = names.topic("source"), names.group("app")
    create_topics(bootstrap, source, partitions=PARTITIONS)
    assert alter(raw, GROUP_RESOURCE, group, **AT_ONCE) == "NONE"
    wait_until(lambda: address_of(Home(GROUP, group), raw.ask) is not None)
    application = Application(raw, group, source)
    application.wait_for(lambda answer: answer.status == [])
    return application


def refusal(answer: Any) -> tuple[str, str]:
    """The error of an answer, and what it says."""
    if answer.error_code and hasattr(answer, "status"):
        assert answer.status == []
    return ErrorCode(answer.error_code).name, answer.error_message or ""


def test_a_member_gets_all_tasks_and_later_half_of_them(app: Application) -> None:
    first = app.join("a")
    assert refusal(first) == ("NONE", "")
    assert (first.member_id, first.member_epoch, first.status) == ("a", 2, [])
    assert (first.task_offset_interval_ms, first.acceptable_recovery_lag) == (60_000, 10_000)
    assert (app.has("a"), first.standby_tasks, first.warmup_tasks) == ([0, 1, 2, 3], [], [])
    assert app.beat("a").active_tasks is None
    second = app.join("b")
    assert (second.member_epoch, app.has("b")) == (3, [])
    assert app.describe().group_state == "Reconciling"
    revoking = app.beat("a")
    assert (revoking.member_epoch, len(app.has("a"))) == (2, 2)
    assert app.beat("b").active_tasks is None
    assert app.beat("a").member_epoch == 3
    app.beat("b")
    assert sorted(app.has("a") + app.has("b")) == [0, 1, 2, 3]
    group = app.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)


def test_a_member_that_leaves_is_gone(app: Application) -> None:
    app.join("a")
    app.join("b")
    for _ in range(2):
        app.beat("a")
        app.beat("b")
    left = app.leave("b")
    assert (left.member_id, left.member_epoch, left.status) == ("b", -1, [])
    app.beat("a")
    assert app.has("a") == [0, 1, 2, 3]
    assert refusal(app.beat("b")) == (
        "UNKNOWN_MEMBER_ID",
        f"Member b is not a member of group {app.group}.",
    )


def test_epochs_that_are_not_the_members_are_fenced(app: Application) -> None:
    app.join("a")
    for epoch, size in ((9, "greater"), (1, "smaller")):
        code, said = refusal(app.beat("a", member_epoch=epoch))
        assert code == "FENCED_MEMBER_EPOCH"
        assert said == (
            f"The streams group member has a {size} member epoch ({epoch}) than the one known by "
            "the group coordinator (2). The member must abandon all its partitions and rejoin."
        )


def test_what_a_request_lacks_is_told(app: Application) -> None:
    tasks = [TaskIds(subtopology_id="0", partitions=[0])]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": tasks}, "ActiveTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"warmup_tasks": None}, "WarmupTasks must be empty when (re-)joining."),
        (
            {"member_epoch": 1, "topology": None, "warmup_tasks": None},
            "If one task-type is non-null, all must be non-null.",
        ),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
        ({"member_epoch": -2, "topology": None}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
    ]
    for fields, text in cases:
        first = {"member_id": "a", "member_epoch": 0, **fields}
        assert refusal(app.join(first.pop("member_id"), **first)) == ("INVALID_REQUEST", text)


def test_topologies_that_cant_be_are_refused(app: Application) -> None:
    wrong = app.topology(changelog="store")
    wrong.subtopologies[0].state_changelog_topics[0].partitions = 3
    assert refusal(app.join("a", topology=wrong)) == (
        "STREAMS_INVALID_TOPOLOGY",
        "Changelog topic store must have an undefined partition count, but it is set to 3.",
    )
    wrong = app.topology()
    wrong.subtopologies[0].source_topic_regex = ["s.*"]
    assert refusal(app.join("a", topology=wrong)) == (
        "INVALID_REQUEST",
        "Regular expressions for source topics are not supported yet.",
    )
    prohibited = "Use of Kafka internal topics {} in a Kafka Streams topology is prohibited."
    invalid = "Topic names {} are not valid topic names."
    for name, text in (("__consumer_offsets", prohibited), ("a b", invalid)):
        part = Subtopology(subtopology_id="0", source_topics=[name])
        answer = app.join("a", topology=Topology(subtopologies=[part]))
        assert refusal(answer) == ("STREAMS_INVALID_TOPOLOGY", text.format(name))


def test_a_group_keeps_its_topology(app: Application) -> None:
    app.join("a", topology=app.topology(epoch=1))
    stale = app.join("b", topology=app.topology(epoch=0))
    assert [(s.status_code, s.status_detail) for s in stale.status] == [
        (STALE, "The member's topology epoch 0 is behind the group's topology epoch 1.")
    ]
    for other in (app.topology(epoch=2), app.topology(epoch=1, changelog="c")):
        assert refusal(app.join("c", topology=other)) == (
            "INVALID_REQUEST",
            "Topology updates are not supported yet.",
        )


def test_tasks_that_there_arent_are_refused(app: Application) -> None:
    app.join("a")
    wrong = [TaskIds(subtopology_id="0", partitions=[7])]
    assert refusal(app.beat("a", active_tasks=wrong)) == (
        "INVALID_REQUEST",
        "Task 7 for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
    )
    wrong = [TaskIds(subtopology_id="9", partitions=[0])]
    assert refusal(app.beat("a", active_tasks=wrong)) == (
        "INVALID_REQUEST",
        "Subtopology 9 does not exist in the topology.",
    )
    twice = [TaskOffset(subtopology_id="0", partition=0, offset=1)] * 2
    assert refusal(app.beat("a", task_offsets=twice)) == (
        "INVALID_REQUEST",
        "Task offsets contain a duplicate entry for subtopology 0 and partition 0.",
    )


def test_a_source_that_is_missing_is_waited_for(
    bootstrap: str, app: Application, names: Names
) -> None:
    app.source = names.topic("later")
    answer = app.join("a")
    assert [(s.status_code, s.status_detail) for s in answer.status] == [
        (NO_SOURCES, f"Source topics {app.source} are missing.")
    ]
    assert (app.has("a"), app.describe().group_state) == ([], "NotReady")
    create_topics(bootstrap, app.source, partitions=2)

    def has_tasks() -> bool:
        app.beat("a")
        return app.has("a") == [0, 1]

    wait_until(has_tasks)
    assert app.describe().group_state == "Stable"


def test_internal_topics_are_created_for_the_group(app: Application, names: Names) -> None:
    changelog = names.topic("store-changelog")
    topology = app.topology(changelog=changelog)
    topology.subtopologies[0].state_changelog_topics[0].topic_configs = [
        KeyValue(key="cleanup.policy", value="compact")
    ]
    answer = app.join("a", topology=topology)
    [status] = answer.status
    assert (status.status_code, status.status_detail) == (
        NO_INTERNAL,
        f"Internal topics are missing: {changelog}",
    )

    def has_tasks() -> bool:
        app.beat("a")
        return app.has("a") == [0, 1, 2, 3]

    wait_until(has_tasks)
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=changelog)])
    assert len(app.raw.ask(wanted, 12).topics[0].partitions) == PARTITIONS
    [part] = app.describe().topology.subtopologies
    [store] = part.state_changelog_topics
    assert (store.name, store.partitions, store.replication_factor) == (changelog, 4, 0)
    assert [(c.key, c.value) for c in store.topic_configs] == [("cleanup.policy", "compact")]


def test_standby_tasks_follow_the_groups_own_setting(app: Application, names: Names) -> None:
    changed = alter(app.raw, GROUP_RESOURCE, app.group, **{"streams.num.standby.replicas": "1"})
    assert changed == "NONE"
    topology = app.topology(changelog=names.topic("store-changelog"))
    app.join("a", topology=topology)
    app.join("b", topology=topology)

    def is_settled() -> bool:
        app.beat("a")
        app.beat("b")
        return app.has("a", "standby_tasks") == app.has("b") and len(app.has("b")) == 2

    wait_until(is_settled)
    assert app.has("b", "standby_tasks") == app.has("a")


def test_members_of_a_new_group_wait_for_each_other(app: Application) -> None:
    delay = {"streams.initial.rebalance.delay.ms": "1000"}
    assert alter(app.raw, GROUP_RESOURCE, app.group, **delay) == "NONE"
    app.wait_for(lambda answer: answer.status != [])
    answer = app.join("a")
    assert (answer.member_epoch, answer.active_tasks) == (1, [])
    assert [(s.status_code, s.status_detail) for s in answer.status] == [
        (DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
    ]
    app.join("b")

    def is_settled() -> bool:
        app.beat("a")
        app.beat("b")
        return len(app.has("a")) == len(app.has("b")) == 2

    wait_until(is_settled)


def test_a_static_member_keeps_its_tasks_while_it_is_away(app: Application) -> None:
    app.join("a", instance_id="i")
    told = "Static member a2 with instance id i cannot join the group because the instance id is "
    assert refusal(app.join("a2", instance_id="i")) == (
        "UNRELEASED_INSTANCE_ID",
        f"{told}owned by a member.",
    )
    away = app.leave("a", member_epoch=-2, instance_id="i")
    assert (away.member_epoch, away.status) == (-2, [])
    back = app.join("a2", instance_id="i", process_id="process of a")
    assert (back.member_epoch, app.has("a2")) == (2, [0, 1, 2, 3])
    assert refusal(app.beat("a", member_epoch=2, instance_id="i")) == (
        "FENCED_INSTANCE_ID",
        "Static member a with instance id i was fenced by member a2.",
    )
    assert refusal(app.beat("a2", instance_id="j")) == (
        "UNKNOWN_MEMBER_ID",
        "Instance id j is unknown.",
    )


def test_members_learn_who_answers_queries(app: Application) -> None:
    endpoint = Endpoint(host="localhost", port=4711)
    [told] = app.join("a", user_endpoint=endpoint).partitions_by_user_endpoint
    assert told.user_endpoint.port == 4711
    app.join("b")
    answer = app.beat("b", endpoint_information_epoch=-1)
    [told] = answer.partitions_by_user_endpoint
    assert (told.user_endpoint.host, told.user_endpoint.port) == ("localhost", 4711)
    assert [(t.topic, t.partitions) for t in told.active_partitions] == [(app.source, [0, 1, 2, 3])]
    assert told.standby_partitions == []
    known = answer.endpoint_information_epoch
    again = app.beat("b", endpoint_information_epoch=known)
    assert again.partitions_by_user_endpoint is None
    app.beat("a", endpoint_information_epoch=known)
    changed = app.beat("b", endpoint_information_epoch=known)
    assert changed.endpoint_information_epoch == known + 1
    [told] = changed.partitions_by_user_endpoint
    assert len(told.active_partitions[0].partitions) == 2


def test_one_member_shuts_the_application_down(app: Application) -> None:
    app.join("a")
    app.join("b")
    app.beat("a", shutdown_application=True)
    answer = app.beat("b")
    told = (
        "Streams group member a encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    assert [(s.status_code, s.status_detail) for s in answer.status] == [(SHUTDOWN, told)]


def test_members_without_the_tags_of_racks_are_told_so(app: Application) -> None:
    tags = {"streams.rack.aware.assignment.tags": "zone,cluster"}
    assert alter(app.raw, GROUP_RESOURCE, app.group, **tags) == "NONE"
    app.wait_for(lambda answer: answer.status != [])
    answer = app.join("a", client_tags=[KeyValue(key="zone", value="z")])
    told = (
        "Missing required client tags for rack-aware standby assignment: [cluster]. Configure them "
        "via 'client.tag.<tagKey>' in your Streams config."
    )
    assert [(s.status_code, s.status_detail) for s in answer.status] == [(NO_TAGS, told)]
    assert app.beat("a", version=0).status == []


def test_commits_are_those_of_a_members_epoch(app: Application) -> None:
    app.join("a")

    def commit(member_id: str, epoch: int, version: int = 9) -> str:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = OffsetCommitRequest(
            group_id=app.group,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=app.source, partitions=[partition])],
        )
        [answer] = app.raw.ask(request, version).topics[0].partitions
        return ErrorCode(answer.error_code).name

    assert commit("a", 2) == "NONE"
    assert commit("a", 3) == "STALE_MEMBER_EPOCH"
    assert commit("a", 1) == "STALE_MEMBER_EPOCH"
    assert commit("x", 2) == "UNKNOWN_MEMBER_ID"
    assert commit("a", 2, 8) == "UNSUPPORTED_VERSION"


def test_an_empty_group_moves_between_protocols(app: Application) -> None:
    """Its offsets stay; a group with members doesn't move."""
    request = JoinGroupRequest(
        group_id=app.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    app.join("a")
    assert app.raw.ask(request, 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    commit = OffsetCommitRequest(
        group_id=app.group,
        member_id="a",
        generation_id_or_member_epoch=2,
        topics=[OffsetCommitRequestTopic(name=app.source, partitions=[row])],
    )
    assert app.raw.ask(commit, 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    app.leave("a")
    classic = app.raw.ask(request, 3)
    assert classic.error_code == ErrorCode.NONE
    assert refusal(app.join("a")) == (
        "GROUP_ID_NOT_FOUND",
        f"Group {app.group} is not a streams group.",
    )
    leave = LeaveGroupRequest(group_id=app.group, member_id=classic.member_id)
    assert app.raw.ask(leave, 1).error_code == ErrorCode.NONE
    assert refusal(app.join("a")) == ("NONE", "")
    wanted = OffsetFetchRequest(
        group_id=app.group,
        topics=[OffsetFetchRequestTopic(name=app.source, partition_indexes=[0])],
    )
    [fetched] = app.raw.ask(wanted, 5).topics[0].partitions
    assert fetched.committed_offset == 3


def test_offsets_of_topics_that_tasks_read_are_not_deleted(app: Application) -> None:
    app.join("a")
    row = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name=app.source, partitions=[row])
    request = OffsetDeleteRequest(group_id=app.group, topics=[topic])
    answer = app.raw.ask(request, 0)
    assert answer.error_code == ErrorCode.NONE
    [deleted] = answer.topics[0].partitions
    assert deleted.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_a_group_is_described_listed_and_deleted(app: Application) -> None:
    app.join("a", rack_id="r", client_tags=[KeyValue(key="zone", value="z")])
    offsets = [TaskOffset(subtopology_id="0", partition=1, offset=5)]
    app.beat("a", task_offsets=offsets, task_end_offsets=offsets)
    group = app.describe()
    assert (group.group_id, group.assignor_name) == (app.group, "sticky")
    [member] = group.members
    assert (member.member_id, member.member_epoch, member.rack_id) == ("a", 2, "r")
    assert (member.process_id, member.topology_epoch, member.is_classic) == (
        *("process of a", 0, False),
    )
    assert [(t.key, t.value) for t in member.client_tags] == [("zone", "z")]
    assert [(o.subtopology_id, o.partition, o.offset) for o in member.task_offsets] == [("0", 1, 5)]
    for shown in (member.assignment, member.target_assignment):
        assert [(t.subtopology_id, t.partitions) for t in shown.active_tasks] == [
            ("0", [0, 1, 2, 3])
        ]
    listed = app.raw.ask(ListGroupsRequest(types_filter=["streams"]), 5).groups
    found = [(g.protocol_type, g.group_state) for g in listed if g.group_id == app.group]
    assert found == [("streams", "Stable")]
    [classic] = app.raw.ask(DescribeGroupsRequest(groups=[app.group]), 6).groups
    assert refusal(classic) == (
        "GROUP_ID_NOT_FOUND",
        f"Group {app.group} is not a classic group.",
    )
    request = DeleteGroupsRequest(groups_names=[app.group])
    assert app.raw.ask(request, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    app.leave("a")
    assert app.describe().group_state == "Empty"
    assert app.raw.ask(request, 2).results[0].error_code == ErrorCode.NONE
    assert refusal(app.describe()) == (
        "GROUP_ID_NOT_FOUND",
        f"Group {app.group} not found.",
    )
    assert refusal(app.beat("a", member_epoch=2)) == (
        "GROUP_ID_NOT_FOUND",
        f"Streams group {app.group} not found.",
    )
