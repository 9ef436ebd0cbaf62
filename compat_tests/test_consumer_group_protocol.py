"""ConsumerGroupHeartbeat request by request: epochs, fencing, static members, offsets, configs.

What a broker answers is compared with what Apache Kafka answers, which is written here; the
tests run against both.
"""

from collections.abc import Iterator
from functools import partial

import pytest
from kafka import KafkaAdminClient

from compat_tests.conftest import Names
from compat_tests.kafka_version import VERSION
from compat_tests.raw_client import RawClient
from compat_tests.raw_groups import (
    PARTITIONS,
    Group,
    Owned,
    new_id,
    wait_topic_is_known,
)
from kwire.errors import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

GROUP_RESOURCE = 32
SET = 0

HAS_TOPIC_IDS_IN_TRANSACTIONS = pytest.mark.skipif(
    VERSION == "4.3.1", reason="TxnOffsetCommit version 6 is in Apache Kafka since 4.4"
)


@pytest.fixture
def group(bootstrap: str, names: Names) -> Iterator[Group]:
    """A group that nobody has joined, and a topic of four partitions."""
    topic = names.topic("raw")
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    with RawClient(bootstrap) as client:
        wait_topic_is_known(Group(client, names.group("probe"), topic))
        yield Group(client, names.group("raw"), topic)


def test_members_share_step_by_step(group: Group) -> None:
    """The epochs of the first members, and revocation before assignment."""
    first, second = new_id(), new_id()
    assert group.join(first) == ("NONE", 2, [0, 1, 2, 3])
    assert group.beat(first, 2) == ("NONE", 2, None)
    error, epoch, assigned = group.join(second)
    assert (error, assigned) == ("NONE", [])
    members = {first: (2, [0, 1, 2, 3]), second: (epoch, [])}
    group.settle(members)
    assert [epoch for epoch, _ in members.values()] == [3, 3]
    assert sorted(len(owned) for _, owned in members.values()) == [2, 2]
    described = group.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == (
        "Stable",
        3,
        3,
    )
    assert described.assignor_name == "uniform"
    assert {member.member_type for member in described.members} == {1}
    assert {member.subscribed_topic_regex for member in described.members} == {""}


def test_epochs_fence_members(group: Group) -> None:
    """Newer ones, older ones; and what a member that missed an answer may do."""
    first, second = new_id(), new_id()
    group.join(first)
    group.join(second)
    members: dict[str, tuple[int, Owned]] = {first: (2, [0, 1, 2, 3]), second: (2, [])}
    group.settle(members)
    owned = members[first][1]
    other = members[second][1]
    assert group.beat(first, 4)[0] == "FENCED_MEMBER_EPOCH"
    assert group.beat(first, 1)[0] == "FENCED_MEMBER_EPOCH"
    assert group.beat(first, 2)[0] == "FENCED_MEMBER_EPOCH"
    assert group.beat(first, 2, [*owned, *other])[0] == "FENCED_MEMBER_EPOCH"
    assert group.beat(first, 2, owned) == ("NONE", 3, None)
    assert group.join(first) == ("NONE", 3, owned)
    assert group.beat(new_id(), 3)[0] == "UNKNOWN_MEMBER_ID"


def test_one_lost_answer_is_forgiven_and_a_second_one_is_not(group: Group) -> None:
    """The coordinator remembers one epoch before the present one, as lost answers show."""
    first, second = new_id(), new_id()
    group.join(first)
    group.join(second)
    members: dict[str, tuple[int, Owned]] = {first: (2, [0, 1, 2, 3]), second: (2, [])}
    group.settle(members)

    def assigned_with(another: str) -> None:
        """Let another member join, and wait for the assignment with it."""
        assert group.join(another)[0] == "NONE"

        def is_assigned() -> bool:
            assert group.join(another)[0] == "NONE"
            described = group.describe()
            return described.group_epoch == described.assignment_epoch

        wait_until(is_assigned, what="the assignment")

    assigned_with(new_id())
    lost = {member: group.beat(member, 3, owned) for member, (_, owned) in members.items()}
    [keeps] = [member for member, (_, epoch, _) in lost.items() if epoch == 4]
    [gives] = [member for member, (_, epoch, _) in lost.items() if epoch == 3]
    owned = members[keeps][1]
    assert group.beat(keeps, 3, owned)[:2] == ("NONE", 4)  # the answer was lost
    _, _, kept = lost[gives]
    assert kept is not None
    assert group.beat(gives, 3, members[gives][1]) == ("NONE", 3, None)  # it knows of no change
    assert group.beat(gives, 3, kept)[:2] == ("NONE", 4)
    assigned_with(new_id())
    error, epoch, kept = group.beat(keeps, 3, owned)  # and so was the second, and now the third
    assert (error, epoch) == ("NONE", 4)
    assert kept is not None
    assert len(kept) == 1
    assert group.beat(keeps, 3, owned)[0] == "FENCED_MEMBER_EPOCH"
    assert group.beat(keeps, 3, kept)[0] == "FENCED_MEMBER_EPOCH"
    assert group.beat(keeps, 4, kept)[:2] == ("NONE", 5)
    assert group.join(keeps) == ("NONE", 5, kept)


def test_requests_that_are_refused(group: Group) -> None:
    """For what they say, before there is a group and after."""
    member = new_id()
    assert group.beat(member, 1)[0] == "GROUP_ID_NOT_FOUND"
    assert group.beat(member, -1)[0] == "GROUP_ID_NOT_FOUND"
    assert group.beat("", 0)[0] == "INVALID_REQUEST"
    assert group.beat(member, 0)[0] == "INVALID_REQUEST"
    assert group.beat(member, -3)[0] == "INVALID_REQUEST"
    assert group.beat(member, -2)[0] == "INVALID_REQUEST"
    assert group.join(member, instance_id="")[0] == "INVALID_REQUEST"
    assert group.join(member, rack_id="")[0] == "INVALID_REQUEST"
    assert group.join(member, server_assignor="sticky")[0] == "UNSUPPORTED_ASSIGNOR"
    assert group.join(member, subscribed_topic_regex="a(")[0] == "INVALID_REGULAR_EXPRESSION"
    assert group.join("", version=0)[0] == "NONE"
    assert group.beat(member, -1)[0] == "UNKNOWN_MEMBER_ID"
    assert group.describe().error_code == 0


def test_static_members(group: Group) -> None:
    """An instance is somebody's until that one is away; then its successor has everything."""
    first, second, stranger = new_id(), new_id(), new_id()
    assert group.join(first, instance_id="one") == ("NONE", 2, [0, 1, 2, 3])
    assert group.join(second, instance_id="one")[0] == "UNRELEASED_INSTANCE_ID"
    assert group.beat(first, -2, instance_id="one") == ("NONE", -2, None)
    assert group.join(second, instance_id="one") == ("NONE", 2, [0, 1, 2, 3])
    assert group.beat(first, 2, instance_id="one")[0] == "FENCED_INSTANCE_ID"
    assert group.beat(stranger, 2, instance_id="two")[0] == "UNKNOWN_MEMBER_ID"
    assert group.beat(second, -1, instance_id="one") == ("NONE", -1, None)
    assert group.describe().group_state == "Empty"


def test_an_operator_removes_members(group: Group) -> None:
    """With LeaveGroup, as admin clients do: by id, by instance, or by both."""
    dynamic, static, other = new_id(), new_id(), new_id()
    group.join(dynamic)
    group.join(static, instance_id="one")
    group.join(other, instance_id="two")
    leaving = LeaveGroupRequest(
        group_id=group.group,
        members=[
            MemberIdentity(member_id=dynamic),
            MemberIdentity(member_id="", group_instance_id="one"),
            MemberIdentity(member_id=static, group_instance_id="two"),
            MemberIdentity(member_id="", group_instance_id="three"),
            MemberIdentity(member_id=new_id()),
        ],
    )
    answer = group.client.ask(leaving, 5)
    assert [ErrorCode(left.error_code).name for left in answer.members] == [
        "NONE",
        "NONE",
        "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
    ]
    assert [member.member_id for member in group.describe().members] == [other]
    assert group.beat(dynamic, 2)[0] == "UNKNOWN_MEMBER_ID"


def test_what_is_given_back_is_described_until_then(group: Group) -> None:
    """A tool sees who has a partition, not who has been told to have it no more."""
    first, second = new_id(), new_id()
    group.join(first)
    group.join(second)
    wait_until(lambda: group.beat(first, 2)[2], what="a revocation")
    shown = {member.member_id: member for member in group.describe().members}
    [had] = shown[first].assignment.topic_partitions
    [keeps] = shown[first].target_assignment.topic_partitions
    assert sorted(had.partitions) == [0, 1, 2, 3]
    assert len(keeps.partitions) == 2
    assert not shown[second].assignment.topic_partitions


def test_what_is_unsubscribed_is_revoked(group: Group) -> None:
    """A member that drops its topics has nothing left, step by step."""
    member = new_id()
    group.join(member)
    assert group.beat(member, 2, subscribed_topic_names=[])[2] == []
    members: dict[str, tuple[int, Owned]] = {member: (2, [])}

    def has_nothing() -> bool:
        epoch, owned = members[member]
        _, epoch, _ = group.beat(member, epoch, owned)
        members[member] = (epoch, owned)
        return epoch == 3

    wait_until(has_nothing, what="the next epoch")


def test_commits_are_fenced_by_epochs(group: Group) -> None:
    """An older epoch may commit what the member had then; others may nothing."""
    first, second = new_id(), new_id()
    assert group.commit("", -1, 0) == "NONE"
    group.join(first)
    group.join(second)
    members: dict[str, tuple[int, Owned]] = {first: (2, [0, 1, 2, 3]), second: (2, [])}
    group.settle(members)
    kept, moved = members[first][1][0], members[second][1][0]
    assert group.commit(first, 3, kept) == "NONE"
    assert group.commit(first, 2, kept) == "NONE"
    assert group.commit(first, 2, moved) == "STALE_MEMBER_EPOCH"
    assert group.commit(first, 2, kept, moved) == "STALE_MEMBER_EPOCH"
    assert group.commit(first, 1, kept) == "STALE_MEMBER_EPOCH"
    assert group.commit(first, 4, kept) == "STALE_MEMBER_EPOCH"
    assert group.commit(second, 2, moved) == "STALE_MEMBER_EPOCH"
    assert group.commit(new_id(), 3, kept) == "UNKNOWN_MEMBER_ID"
    assert group.commit("", -1, kept) == "UNKNOWN_MEMBER_ID"
    assert group.commit(first, 3, kept, version=8) == "UNSUPPORTED_VERSION"


@pytest.mark.parametrize(
    ("version", "stale"),
    [
        (5, "ILLEGAL_GENERATION"),
        pytest.param(6, "STALE_MEMBER_EPOCH", marks=HAS_TOPIC_IDS_IN_TRANSACTIONS),
    ],
)
def test_commits_in_transactions_are_fenced_by_epochs(
    group: Group, version: int, stale: str
) -> None:
    """By the same rules, before version 6 in the words of an older protocol."""
    first, second = new_id(), new_id()
    group.join(first)
    group.join(second)
    members: dict[str, tuple[int, Owned]] = {first: (2, [0, 1, 2, 3]), second: (2, [])}
    group.settle(members)
    kept, moved = members[first][1][0], members[second][1][0]
    commit = partial(group.commit_in_transaction, version=version)
    assert commit(first, 3, kept) == "NONE"
    assert commit(first, 2, kept) == "NONE"
    assert commit(first, 2, kept, moved) == stale
    assert commit(first, 4, kept) == stale
    assert commit(new_id(), 3, kept) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    ("version", "no_topic", "no_group"),
    [
        (5, "UNKNOWN_TOPIC_OR_PARTITION", "ILLEGAL_GENERATION"),
        pytest.param(
            6, "UNKNOWN_TOPIC_ID", "GROUP_ID_NOT_FOUND", marks=HAS_TOPIC_IDS_IN_TRANSACTIONS
        ),
    ],
)
def test_commits_in_transactions_of_what_is_not_there(
    group: Group, names: Names, version: int, no_topic: str, no_group: str
) -> None:
    """From version 6 on, topics have ids, and a missing group is said to be missing."""
    member = new_id()
    _, epoch, _ = group.join(member)
    commit = partial(group.commit_in_transaction, version=version)
    assert commit(member, epoch, PARTITIONS) == "UNKNOWN_TOPIC_OR_PARTITION"
    nobody = Group(group.client, names.group(), group.topic)
    missing = nobody.commit_in_transaction(new_id(), 3, 0, version=version)
    assert missing == no_group
    group.topic, group.topic_id = "nothing", bytes(range(16))
    assert commit(member, epoch, 0) == no_topic


def test_fetches_are_fenced_by_epochs(group: Group) -> None:
    """A member must be at its epoch; who is none may fetch."""
    member = new_id()
    group.join(member)
    assert group.fetch(member, 2) == "NONE"
    assert group.fetch(member, 1) == "STALE_MEMBER_EPOCH"
    assert group.fetch(new_id(), 2) == "UNKNOWN_MEMBER_ID"
    assert group.fetch(None, -1) == "NONE"


def test_kinds_of_groups_are_not_mixed(group: Group, admin: KafkaAdminClient) -> None:
    """Members of another protocol type can't join, and a classic group of theirs isn't upgraded."""
    member = new_id()
    group.join(member)
    request = JoinGroupRequest(
        group_id=group.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="default", metadata=b"")],
    )
    answer = ErrorCode(group.client.ask(request, 9).error_code)
    assert answer is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request.group_id = other = f"{group.group}-connect"
    pending = group.client.ask(request, 9)
    assert ErrorCode(pending.error_code) is ErrorCode.MEMBER_ID_REQUIRED
    request.member_id = pending.member_id
    assert group.client.ask(request, 9).error_code == 0
    group.group = other
    assert group.join(member)[0] == "GROUP_ID_NOT_FOUND"
    assert ErrorCode(group.describe().error_code) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_consumer_group_isnt_described_as_a_classic_one(group: Group) -> None:
    """It is said why; who asks twice is told twice."""
    group.join(new_id())
    asked = DescribeGroupsRequest(groups=[group.group, group.group])
    for described in group.client.ask(asked, 6).groups:
        assert ErrorCode(described.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
        assert described.error_message == f"Group {group.group} is not a classic group."
        assert described.group_state == "Dead"
    assert len(group.client.ask(asked, 5).groups) == 2


def test_configs_of_a_group(group: Group) -> None:
    """Its own heartbeat interval is what its members are told; limits are the broker's."""

    def alter(name: str, value: str) -> ErrorCode:
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=GROUP_RESOURCE,
                    resource_name=group.group,
                    configs=[AlterableConfig(name=name, config_operation=SET, value=value)],
                )
            ]
        )
        return ErrorCode(group.client.ask(request, 1).responses[0].error_code)

    member = new_id()
    group.join(member)
    assert alter("consumer.heartbeat.interval.ms", "7000") is ErrorCode.NONE
    assert alter("consumer.heartbeat.interval.ms", "1") is ErrorCode.INVALID_CONFIG
    assert alter("consumer.session.timeout.ms", "1000000") is ErrorCode.INVALID_CONFIG
    assert alter("consumer.something", "1") is ErrorCode.INVALID_CONFIG

    def interval_ms() -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group.group, member_id=member, member_epoch=2
        )
        interval: int = group.client.ask(request, 1).heartbeat_interval_ms
        return interval

    # A group that has just changed may be asked to come sooner.
    wait_until(lambda: interval_ms() == 7000, timeout_s=60, what="the interval of the group")
