"""How long offsets are kept (KIP-211)."""

import pytest

from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription


@pytest.fixture
def script(new_script):
    """A script where offsets are kept for 100 seconds."""
    return new_script(offsets_retention_ms=100_000)


def test_offsets_of_simple_consumers_expire_by_their_commit(script):
    """Each counts from its own commit; when the last is gone so is the group."""
    script.run(
        """
        commit - t-0=1
            record t-0=1
        after 60
        commit - t-1=1
            record t-1=1
        after 40
        expire
            record t-0 gone
        after 60
        expire
            record t-1 gone
        show
            unknown
        """
    )


def test_offsets_of_an_empty_group_expire_after_it_became_empty(script):
    """Not while it has members that may be slow to commit; the group goes with its last offset."""
    script.run(
        """
        join a version=3 session=200
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        sync a a-1=p0
            record generation 1 range a-1=p0
            a sync: p0
        commit a t-0=1
            record t-0=1
        after 150
        expire
        leave a
            record generation 2 empty
            leave: a-1 NONE
        after 99
        expire
        restart
        after 1
        expire
            record t-0 gone
            record group gone
        show
            unknown
        """
    )


def test_a_commit_after_the_group_became_empty_counts(script):
    """An offset that an operator has reset is kept as long as any other."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        leave a
            record generation 2 empty
            leave: a-1 NONE
        after 90
        commit - t-0=1
            record t-0=1
        after 99
        expire
        after 1
        expire
            record t-0 gone
            record group gone
        """
    )


def test_a_commit_may_say_how_long_it_is_kept(script):
    """OffsetCommit before version 5."""
    script.run(
        """
        commit - keep=10 t-0=1
            record t-0=1
        commit - keep=500 t-1=1
            record t-1=1
        after 10
        restart
        expire
            record t-0 gone
        after 400
        expire
        after 90
        expire
            record t-1 gone
        """
    )


def test_a_stable_group_keeps_the_topics_it_reads(script):
    """Offsets of topics that nobody subscribes to any more expire by their own age."""
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=b"")
    topics = b"\x00\x01" + encode(subscription, 1)
    script.run(
        f"""
        join a version=3 session=1000 topics={topics.decode()}
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        sync a a-1=p0
            record generation 1 range a-1=p0
            a sync: p0
        commit a t-0=1 u-0=1
            record t-0=1
            record u-0=1
        after 100
        expire
            record u-0 gone
        """
    )


def test_a_group_whose_subscriptions_cannot_be_read_keeps_everything(script):
    """So does a group of another protocol type: nobody can tell what it reads."""
    script.run(
        """
        join a version=3 session=1000 topics=x
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        sync a a-1=p0
            record generation 1 range a-1=p0
            a sync: p0
        commit a t-0=1
            record t-0=1
        after 100
        expire
        """
    )


def test_an_empty_group_without_offsets_goes(script):
    """Unless somebody is about to join it."""
    script.run(
        """
        join a
            record generation 0 empty
            a join: MEMBER_ID_REQUIRED a-1
        expire
        after 10
        expire
            record group gone
        """
    )
