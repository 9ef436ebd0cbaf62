"""Rebalances of classic groups with several members, request by request, and what time leads to."""

from collections.abc import Callable, Iterator

import pytest

from compat_tests.conftest import Names
from compat_tests.raw_members import RawMember, subscription
from kwire.errors import ErrorCode
from kwire.protocol.messages.join_group import JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequestAssignment
from kwire.testing.waiting import wait_until

OK = ErrorCode.NONE
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
NewMember = Callable[[], RawMember]


@pytest.fixture
def new_member(bootstrap: str, names: Names) -> Iterator[NewMember]:
    """Makes members of one group; their connections are closed after the test."""
    group = names.group()
    members: list[RawMember] = []

    def make() -> RawMember:
        members.append(RawMember(bootstrap, group))
        return members[-1]

    yield make
    for member in members:
        member.raw.close()


def changed(member: RawMember, topic: str) -> dict[str, object]:
    """A member's request to join with another subscription, so that it has to wait for others."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(topic))
    return {"protocols": [protocol]}


def wait_told(member: RawMember, code: ErrorCode) -> None:
    """Wait until a member's heartbeat is answered so."""
    wait_until(lambda: member.beat() is code, what=code.name)


def two(new_member: NewMember, rebalance_ms: int = 10_000) -> tuple[RawMember, RawMember]:
    """Two members that have joined; the first one leads, nobody has synced yet."""
    first, second = new_member(), new_member()
    timeout = {"rebalance_timeout_ms": rebalance_ms}
    first.become_stable(**timeout)
    second.join(**timeout)
    second.begin_to_join(**timeout)
    wait_told(first, REBALANCE)
    answer = first.join(**timeout)
    assert (answer.generation_id, answer.leader) == (2, first.member_id)
    assert {m.member_id for m in answer.members} == {first.member_id, second.member_id} - {""}
    return first, second


def assignments(*members: RawMember) -> list[SyncGroupRequestAssignment]:
    """``p0`` for the first, ``p1`` for the second …"""
    return [
        SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"p%d" % index)
        for index, member in enumerate(members)
    ]


def test_two_members(new_member: NewMember) -> None:
    """Both join, one waits for the other's assignment, and each has its own part."""
    first, second = two(new_member)
    joined = second.joined()
    assert (joined.generation_id, joined.leader, joined.members) == (2, first.member_id, [])
    second.begin_to_sync()
    assert first.sync(assignments=assignments(first, second)).assignment == b"p0"
    assert second.synced().assignment == b"p1"
    assert (first.beat(), second.beat()) == (OK, OK)
    second.join()
    assert second.generation == 2
    second.begin_to_join(**changed(second, "other"))
    wait_told(first, REBALANCE)
    first.join()
    assert (second.joined().generation_id, first.generation) == (3, 3)


def test_who_waits_is_told_when_the_group_changes(new_member: NewMember) -> None:
    """A waiting sync is interrupted by a newcomer, a waiting join by its own leaving."""
    first, second = two(new_member)
    second.joined()
    second.begin_to_sync()
    third = new_member()
    third.join()
    third.begin_to_join()
    assert second.synced().error_code == REBALANCE
    assert first.sync().error_code == REBALANCE
    second.begin_to_join()
    left = first.leave(MemberIdentity(member_id=third.member_id))
    assert [m.error_code for m in left.members] == [OK]
    assert third.joined().error_code == UNKNOWN
    first.join()
    assert second.joined().generation_id == first.generation == 3


def test_who_does_not_join_in_time_is_out(new_member: NewMember) -> None:
    """The rebalance timeout ends the wait; the others go on without it."""
    first, second = two(new_member, 1_000)
    second.joined()
    second.begin_to_join(rebalance_timeout_ms=1_000, **changed(second, "other"))
    joined = second.joined()
    assert (joined.generation_id, joined.leader) == (3, second.member_id)
    assert first.beat() is UNKNOWN


def test_who_does_not_sync_in_time_is_out(new_member: NewMember) -> None:
    """The leader too: whoever waited for it is told to join again."""
    first, second = two(new_member, 1_500)
    second.joined()
    second.begin_to_sync()
    assert second.synced().error_code == REBALANCE
    joined = second.join(rebalance_timeout_ms=1_500)
    assert (joined.generation_id, joined.leader) == (3, second.member_id)
    assert first.beat() is UNKNOWN


def test_who_is_silent_for_too_long_is_out(new_member: NewMember) -> None:
    """Its session ends, and the other one has to join again."""
    first, second = new_member(), new_member()
    session = {"session_timeout_ms": 6_000}
    first.become_stable(**session)
    second.join(**session)
    second.begin_to_join(**session)
    joined = second.joined()
    assert (joined.generation_id, joined.leader) == (2, second.member_id)
    assert first.beat() is UNKNOWN


def test_the_protocol_most_members_like_is_chosen(new_member: NewMember) -> None:
    """Among those that all of them have."""

    def offer(*names: str) -> dict[str, object]:
        metadata = subscription("t")
        return {"protocols": [JoinGroupRequestProtocol(name=n, metadata=metadata) for n in names]}

    first, second = new_member(), new_member()
    first.become_member(**offer("a", "b"))
    assert first.sync(protocol_name="a").error_code == OK
    assert second.join(**offer("c")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    second.member_id = ""
    second.join(**offer("b", "c"))
    second.begin_to_join(**offer("b", "c"))
    wait_told(first, REBALANCE)
    answer = first.join(**offer("a", "b"))
    assert (answer.protocol_name, second.joined().protocol_name) == ("b", "b")
