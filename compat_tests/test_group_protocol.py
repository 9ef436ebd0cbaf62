"""The requests of classic groups, one by one in every version, with the errors Kafka gives."""

from collections.abc import Callable, Iterator

import pytest

from compat_tests.conftest import Names
from compat_tests.raw_client import RawClient
from compat_tests.raw_members import RawMember, subscription
from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.join_group import JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import MemberIdentity
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

OK = ErrorCode.NONE
UNKNOWN_ID = b"\x01" * 16
NewMember = Callable[[str], RawMember]


@pytest.fixture
def new_member(bootstrap: str) -> Iterator[NewMember]:
    """Makes members; their connections are closed after the test."""
    members: list[RawMember] = []

    def make(group: str) -> RawMember:
        members.append(RawMember(bootstrap, group))
        return members[-1]

    yield make
    for member in members:
        member.raw.close()


@pytest.fixture
def member(new_member: NewMember, names: Names) -> RawMember:
    """A member of a group of its own."""
    return new_member(names.group())


@pytest.fixture
def topic(bootstrap: str, names: Names) -> str:
    """A topic with two partitions."""
    name = names.topic("groups")
    create_topics(bootstrap, name, partitions=2)
    with RawClient(bootstrap) as raw:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        wait_until(lambda: not raw.ask(asked, 12).topics[0].error_code, what="the topic")
    return name


def topic_id(member: RawMember, topic: str) -> bytes:
    """The id of a topic."""
    answer = member.raw.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    found: bytes = answer.topics[0].topic_id
    return found


@pytest.mark.parametrize("version", range(10))
def test_a_member_in_every_version(new_member: NewMember, names: Names, version: int) -> None:
    """Join, sync, heartbeat and leave; an id is required from version 4 on."""
    member = new_member(names.group())
    first = member.join(version)
    assert (first.error_code == ErrorCode.MEMBER_ID_REQUIRED) == (version >= 4)
    if version >= 4:
        assert (first.generation_id, first.leader, first.members) == (-1, "", [])
        first = member.join(version)
    assert (first.error_code, first.generation_id, first.protocol_name) == (OK, 1, "range")
    assert (first.leader, [m.member_id for m in first.members]) == (
        member.member_id,
        [member.member_id],
    )
    assert member.sync(min(version, 5)).assignment == b"all"
    assert member.beat(min(version, 4)) is OK
    assert member.leave(version=min(version, 5)).error_code == OK
    assert member.beat(min(version, 4)) is ErrorCode.UNKNOWN_MEMBER_ID
    gone = member.leave(version=min(version, 5))
    codes = [m.error_code for m in gone.members] if version >= 3 else [gone.error_code]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_joins_that_are_refused(member: RawMember, new_member: NewMember) -> None:
    """Each for its own reason; what was refused changes nothing."""
    unknown = member.join(member_id="nobody")
    assert (unknown.error_code, unknown.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")
    for timeout_ms in (5_999, 1_800_001):
        refused = member.join(session_timeout_ms=timeout_ms, member_id="")
        assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert member.join(group_id="", member_id="").error_code == ErrorCode.INVALID_GROUP_ID
    member.member_id = ""
    member.become_stable()
    other = new_member(member.group)
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert other.join(protocol_type="connect").error_code == inconsistent
    strange = [JoinGroupRequestProtocol(name="strange", metadata=subscription("t"))]
    assert other.join(protocols=strange).error_code == inconsistent
    assert other.join(protocols=[]).error_code == inconsistent
    assert member.beat() is OK


def test_syncs_and_heartbeats_that_are_refused(member: RawMember) -> None:
    """By generation, member, instance and protocol."""
    member.become_member()
    assert member.sync(generation_id=7).error_code == ErrorCode.ILLEGAL_GENERATION
    assert member.sync(member_id="nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.sync(group_instance_id="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.sync(protocol_type="connect").error_code == inconsistent
    assert member.sync(protocol_name="strange").error_code == inconsistent
    assert member.sync(protocol_name=None).error_code == inconsistent
    assert member.sync().error_code == OK
    assert member.beat(generation_id=7) is ErrorCode.ILLEGAL_GENERATION
    assert member.beat(member_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert member.beat(group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert member.beat(group_id="") is ErrorCode.INVALID_GROUP_ID


def test_static_members(member: RawMember, new_member: NewMember) -> None:
    """A newer self takes the place of an older one, which is fenced; nobody rebalances."""
    static = {"group_instance_id": "i"}
    member.become_stable(**static)
    newer = new_member(member.group)
    again = newer.join(**static)
    assert (again.error_code, again.generation_id, again.skip_assignment) == (OK, 1, True)
    assert newer.member_id != member.member_id
    assert newer.sync(**static).assignment == b"all"
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert member.beat(**static) is fenced
    assert member.sync(**static).error_code == fenced
    assert member.join(**static).error_code == fenced
    left = member.leave(
        MemberIdentity(member_id=member.member_id, group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="other"),
        MemberIdentity(member_id="", group_instance_id="i"),
    )
    assert [m.error_code for m in left.members] == [fenced, ErrorCode.UNKNOWN_MEMBER_ID, OK]
    assert newer.beat(**static) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_older_static_leader_is_told_that_its_former_self_leads(
    member: RawMember, new_member: NewMember
) -> None:
    """Before version 9 there is no other way to keep it from assigning anew (KIP-814)."""
    static = {"group_instance_id": "i"}
    member.become_stable(**static)
    newer = new_member(member.group)
    again = newer.join(8, **static)
    assert (again.error_code, again.leader, again.members) == (OK, member.member_id, [])


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_in_every_version(member: RawMember, topic: str, version: int) -> None:
    """Committed by somebody who is no member, and fetched in every version."""
    named = topic_id(member, topic) if version >= 10 else topic
    assert member.commit(named, (0, 41, "note"), version=version) == [OK]
    wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])
    for fetch_version in range(1, 8):
        asked = OffsetFetchRequest(group_id=member.group, topics=[wanted])
        answer = member.raw.ask(asked, fetch_version)
        found = [
            (p.partition_index, p.committed_offset, p.metadata, p.error_code)
            for p in answer.topics[0].partitions
        ]
        assert found == [(0, 41, "note", OK), (1, -1, "", OK)]
        assert answer.error_code == OK


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offsets_of_several_groups(
    member: RawMember, new_member: NewMember, topic: str, version: int
) -> None:
    """All of one, some of another, none of a group nobody knows."""
    other, nobody = new_member(member.neighbor("other")), member.neighbor("nobody")
    assert member.commit(topic, (0, 1, "")) == [OK]
    assert other.commit(topic, (1, 2, "")) == [OK]
    by_id = {"topic_id": topic_id(member, topic)} if version >= 10 else {"name": topic}
    some = OffsetFetchRequestTopics(**by_id, partition_indexes=[0, 1])
    groups = [
        OffsetFetchRequestGroup(group_id=member.group, topics=None),
        OffsetFetchRequestGroup(group_id=other.group, topics=[some]),
        OffsetFetchRequestGroup(group_id=nobody, topics=None),
        OffsetFetchRequestGroup(group_id=nobody, topics=[some]),
    ]
    answer = member.raw.ask(OffsetFetchRequest(groups=groups, require_stable=True), version)
    found = [
        [(p.partition_index, p.committed_offset) for t in group.topics for p in t.partitions]
        for group in answer.groups
    ]
    assert found == [[(0, 1)], [(0, -1), (1, 2)], [], [(0, -1), (1, -1)]]
    assert [group.error_code for group in answer.groups] == [OK] * 4


def test_commits_that_are_refused(member: RawMember, topic: str) -> None:
    """Each partition by itself, or all of them for the one who commits."""
    assert member.commit(topic, (0, 1, "x" * 4096), (1, 1, "x" * 4097)) == [
        OK,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.commit(topic, (0, 1, ""), (2, 1, "")) == [OK, unknown]
    assert member.commit(f"{topic}-missing", (0, 1, "")) == [unknown]
    assert member.commit(UNKNOWN_ID, (0, 1, ""), version=10) == [ErrorCode.UNKNOWN_TOPIC_ID]
    one = (0, 2, "")
    assert member.commit(topic, one, generation_id_or_member_epoch=3, member_id="x") == [
        ErrorCode.UNKNOWN_MEMBER_ID
    ]
    nobody = {"group_id": f"{member.group}-nobody", "generation_id_or_member_epoch": 3}
    assert member.commit(topic, one, version=9, **nobody) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert member.commit(topic, one, version=8, **nobody) == [ErrorCode.ILLEGAL_GENERATION]
    member.become_member()
    rebalancing = ErrorCode.REBALANCE_IN_PROGRESS
    assert member.commit(topic, one, **member.as_member) == [rebalancing]
    assert member.sync().error_code == OK
    assert member.commit(topic, one, **member.as_member) == [OK]
    assert member.commit(topic, one) == [ErrorCode.UNKNOWN_MEMBER_ID]
    older = member.as_member | {"generation_id_or_member_epoch": 0}
    assert member.commit(topic, one, **older) == [ErrorCode.ILLEGAL_GENERATION]
    static = member.as_member | {"group_instance_id": "i"}
    assert member.commit(topic, one, **static) == [ErrorCode.UNKNOWN_MEMBER_ID]


def delete_offsets(
    member: RawMember, group: str, *partitions: tuple[str, int]
) -> tuple[int, list[int]]:
    """Ask for offsets to be deleted; the error of the whole, and of each partition."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
        )
        for name, index in partitions
    ]
    answer = member.raw.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
    codes = {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
    return answer.error_code, [codes[key] for key in partitions] if codes else []


def test_offsets_are_deleted(member: RawMember, topic: str) -> None:
    """Unless members read their topic, or nobody can tell whether they do."""
    group, other = member.group, f"{topic}-missing"
    assert delete_offsets(member, group, (topic, 0)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert delete_offsets(member, "", (topic, 0)) == (ErrorCode.INVALID_GROUP_ID, [])
    member.commit(topic, (0, 1, ""), (1, 1, ""))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = delete_offsets(member, group, (topic, 1), (other, 0))
    assert asked == (OK, [OK, unknown])
    answer = member.raw.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 8
    )
    assert [p.partition_index for t in answer.groups[0].topics for p in t.partitions] == [0]
    member.topics = (topic,)
    member.become_stable()
    assert delete_offsets(member, group, (topic, 0)) == (OK, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    member.leave()
    member.member_id = ""
    member.become_member(protocol_type="connect")
    assert delete_offsets(member, group, (topic, 0)) == (ErrorCode.NON_EMPTY_GROUP, [])


def test_groups_are_listed_by_state_and_type(member: RawMember, topic: str) -> None:
    """In any case; a group that only has offsets is an empty classic one."""

    def listed(version: int, **filters: list[str]) -> list[tuple[str, ...]]:
        answer = member.raw.ask(ListGroupsRequest(**filters), version)
        return [
            (g.protocol_type, g.group_state, g.group_type)
            for g in answer.groups
            if g.group_id == member.group
        ]

    member.commit(topic, (0, 1, ""))
    assert listed(5) == [("", "Empty", "classic")]
    member.become_stable()
    assert listed(5) == [("consumer", "Stable", "classic")]
    for version in range(5):
        assert len(listed(version)) == 1
    assert len(listed(4, states_filter=["stable", "Empty"])) == 1
    assert listed(4, states_filter=["Empty"]) == []
    assert len(listed(5, types_filter=["Classic"])) == 1
    assert listed(5, types_filter=["consumer"]) == []


def test_groups_are_described(member: RawMember, topic: str) -> None:
    """Members once the group is stable; one nobody knows is dead, or not found from 6 on."""

    def described(version: int, group: str = member.group) -> tuple[object, ...]:
        answer = member.raw.ask(DescribeGroupsRequest(groups=[group]), version)
        [found] = answer.groups
        members = [(m.member_id, m.member_assignment) for m in found.members]
        state = (found.error_code, found.group_state)
        return (*state, found.protocol_type, found.protocol_data, members)

    nobody = f"{member.group}-nobody"
    for version in range(6):
        assert described(version, nobody) == (OK, "Dead", "", "", [])
    assert described(6, nobody) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead", "", "", [])
    member.commit(topic, (0, 1, ""))
    assert described(6) == (OK, "Empty", "", "", [])
    member.become_member()
    assert described(6) == (OK, "CompletingRebalance", "consumer", "", [(member.member_id, b"")])
    member.sync()
    for version in range(7):
        assert described(version) == (
            OK,
            "Stable",
            "consumer",
            "range",
            [(member.member_id, b"all")],
        )


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(member: RawMember, topic: str, version: int) -> None:
    """When nobody is a member; with all their offsets."""

    def delete(*groups: str) -> dict[str, int]:
        answer = member.raw.ask(DeleteGroupsRequest(groups_names=list(groups)), version)
        return {result.group_id: result.error_code for result in answer.results}

    nobody = member.neighbor("nobody")
    member.become_stable()
    assert member.commit(topic, (0, 1, ""), **member.as_member) == [OK]
    assert delete(member.group, nobody) == {
        member.group: ErrorCode.NON_EMPTY_GROUP,
        nobody: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    member.leave()
    assert delete(member.group) == {member.group: OK}
    assert delete(member.group) == {member.group: ErrorCode.GROUP_ID_NOT_FOUND}
