"""Offsets, deletion, and what happens when records can't be written."""

import pytest

from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.joining import Client
from kwire.coordinator.modern_records import GroupKey, parse_key
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.record.records import Record

ONE_MEMBER = """
    join a version=3
        record generation 0 empty
        a join: generation 1 range leader a-1 [a-1]
    sync a a-1=p0
        record generation 1 range a-1=p0
        a sync: p0
"""


def test_members_commit_offsets(script):
    """They survive the group's members and a restart."""
    script.run(ONE_MEMBER)
    script.run(
        """
        commit a t-0=5 t-1=7
            record t-0=5
            record t-1=7
        leave a
            record generation 2 empty
            leave: a-1 NONE
        restart
        show
            Empty generation 2
            offset t-0=5
            offset t-1=7
        """
    )


def test_clients_that_only_commit_make_a_group(script):
    """Simple consumers assign partitions themselves and never join."""
    script.run(
        """
        commit - t-0=5
            record t-0=5
        show
            Empty
            offset t-0=5
        restart
        show
            Empty
            offset t-0=5
        """
    )


def test_who_may_commit(script):
    """A group with members takes commits of its members and generation alone."""
    script.client("stranger").generation = 3
    script.run(
        """
        commit stranger t-0=5
            stranger commit: GROUP_ID_NOT_FOUND
        commit - t-0=1
            record t-0=1
        commit stranger t-0=5
            stranger commit: UNKNOWN_MEMBER_ID
        """
    )
    script.run(ONE_MEMBER)
    script.run(
        """
        commit - t-0=5
            - commit: UNKNOWN_MEMBER_ID
        commit stranger t-0=5
            stranger commit: UNKNOWN_MEMBER_ID
        join b version=3
        commit a t-0=6
            record t-0=6
        join a
            a join: generation 2 range leader a-1 [a-1 b-2]
            b join: generation 2 range leader a-1
        commit a t-0=7
            a commit: REBALANCE_IN_PROGRESS
        """
    )
    script.client("a").generation = 1
    script.run(
        """
        commit a t-0=8
            a commit: ILLEGAL_GENERATION
        """
    )


def test_only_empty_groups_are_deleted(script):
    """Their offsets go with them, for good."""
    script.run(
        """
        delete
            delete: GROUP_ID_NOT_FOUND
        """
    )
    script.run(ONE_MEMBER)
    script.run(
        """
        commit a t-0=5
            record t-0=5
        delete
            delete: NON_EMPTY_GROUP
        leave a
            record generation 2 empty
            leave: a-1 NONE
        delete
            record t-0 gone
            record group gone
        show
            unknown
        restart
        show
            unknown
        delete
            delete: GROUP_ID_NOT_FOUND
        """
    )


def test_offsets_of_deleted_topics_go(script):
    """Those of other topics stay; what is gone is looked up when a group's turn comes."""
    script.run(
        """
        commit - t-0=5 u-0=6
            record t-0=5
            record u-0=6
        """
    )
    gone = set()
    steps = script.coordinator.committed.forget_topics(gone.__contains__)
    gone.add("t")
    for effects in steps:
        script.take(effects)
    script.run(
        """
        show
            Empty
            offset u-0=6
        """
    )


def test_an_assignment_that_cannot_be_written_begins_a_new_rebalance(script):
    """Everybody who waits is told, and nobody keeps an assignment that isn't written."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3
        join a
            a join: generation 2 range leader a-1 [a-1 b-2]
            b join: generation 2 range leader a-1
        sync b
        writes fail
        sync a a-1=p0 b-2=p1
            a sync: NOT_COORDINATOR
            b sync: NOT_COORDINATOR
        writes work
        beat a
            a beat: REBALANCE_IN_PROGRESS
        join b
        join a
            a join: generation 3 range leader a-1 [a-1 b-2]
            b join: generation 3 range leader a-1
        """
    )


def test_a_group_that_cannot_be_written_does_not_exist(script):
    """A first member is told, and may try again."""
    script.run(
        """
        writes fail
        join a version=3
            a join: NOT_COORDINATOR
        show
            unknown
        writes work
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-2 [a-2]
        """
    )


def test_offsets_that_cannot_be_written_are_not_committed(script):
    """What a commit says is never seen before it is written."""
    script.run(
        """
        commit - t-0=5
            record t-0=5
        writes fail
        commit - t-0=6
        show
            Empty
            offset t-0=5
        """
    )


@pytest.mark.parametrize("verb", ["join", "sync"])
def test_everybody_is_told_when_a_coordinator_ends(script, verb):
    """NOT_COORDINATOR sends clients looking for the one that has taken over."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3
        """
    )
    if verb == "sync":
        script.run(
            """
            join a
                a join: generation 2 range leader a-1 [a-1 b-2]
                b join: generation 2 range leader a-1
            sync b
            """
        )
    effects = script.coordinator.end(ErrorCode.NOT_COORDINATOR)
    [(waiter, response)] = effects.replies
    assert waiter == ("b", verb)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert isinstance(response, JoinGroupResponse) == (verb == "join")


def test_each_group_that_is_due_has_a_batch_of_its_own():
    """However many members end at once, as after a restart: each group's records have room."""
    turns = iter(range(100))
    coordinator = GroupCoordinator(GroupSettings(initial_rebalance_delay_ms=0), new_id=str)
    names = ["one", "two", "three"]
    for name in names:
        request = ConsumerGroupHeartbeatRequest(
            group_id=name,
            member_id="m",
            rebalance_timeout_ms=1,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        effects = coordinator.consumer.heartbeat(request, Client("c", "/h", 1), name, 0)
        for written in effects.records:
            record = Record(next(turns), 0, written.key, written.value)
            coordinator.replay(record, -1, 0, loading=False)
    hour_ms = 3_600_000
    first = coordinator.tick(hour_ms)
    assert {parse_key(GroupKey, record.key).group_id for record in first.records} == {"one"}
    due_ms = coordinator.next_deadline_ms()
    assert due_ms is not None
    assert due_ms < hour_ms


def test_an_old_producer_commits_for_a_group_that_has_members(script):
    """Its client names no member (KIP-447); one that names an instance has to be that."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        commit - t-0=1
            - commit: UNKNOWN_MEMBER_ID
        commit - transactional=yes t-0=2
            record t-0=2
        commit - transactional=yes instance=i t-0=3
            - commit: UNKNOWN_MEMBER_ID
        """
    )
