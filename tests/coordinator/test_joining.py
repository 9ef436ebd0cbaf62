"""Who may join a classic group, and with which answer."""

import pytest


def test_a_dynamic_member_is_given_an_id_and_joins_with_it(script):
    """KIP-394: the first join leaves only a pending id; the group's record is written first."""
    script.run(
        """
        join a
            record generation 0 empty
            a join: MEMBER_ID_REQUIRED a-1
        show
            Empty generation 0 (a-1)
        join a
            a join: generation 1 range leader a-1 [a-1]
        sync a a-1=p0
            record generation 1 range a-1=p0
            a sync: p0
        show
            Stable generation 1 a-1*=p0
        """
    )


def test_an_old_client_joins_at_once(script):
    """Before version 4 the broker doesn't send new members back."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        """
    )


def test_an_id_that_nobody_gave_out_is_unknown(script):
    """A client of a group that was forgotten begins anew."""
    script.run(
        """
        join a id=a-9
            a join: UNKNOWN_MEMBER_ID
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b id=b-9
            b join: UNKNOWN_MEMBER_ID
        """
    )


def test_a_pending_id_ends_with_its_session(script):
    """A client that never comes back leaves nothing behind."""
    script.run(
        """
        join a session=10
            record generation 0 empty
            a join: MEMBER_ID_REQUIRED a-1
        after 10
        show
            Empty generation 0
        join a
            a join: UNKNOWN_MEMBER_ID
        """
    )


def test_session_timeouts_outside_of_the_limits_are_refused(script):
    """group.min.session.timeout.ms and group.max.session.timeout.ms."""
    script.run(
        """
        join a session=5
            a join: INVALID_SESSION_TIMEOUT
        join a session=1801
            a join: INVALID_SESSION_TIMEOUT
        show
            unknown
        join a session=1800
            record generation 0 empty
            a join: MEMBER_ID_REQUIRED a-1
        join b session=6
            b join: MEMBER_ID_REQUIRED b-2
        """
    )


@pytest.mark.parametrize("how", ["type=connect", "protocols=roundrobin", "protocols=", "type="])
def test_members_must_share_type_and_a_protocol(script, how):
    """INCONSISTENT_GROUP_PROTOCOL where nothing would be left that all members have."""
    script.run(
        f"""
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3 {how}
            b join: INCONSISTENT_GROUP_PROTOCOL
        """
    )


def test_the_protocol_that_most_members_prefer_is_chosen(script):
    """Each member votes for the first of its protocols that all members have."""
    script.run(
        """
        join a version=3 protocols=sticky,range,roundrobin
            record generation 0 empty
            a join: generation 1 sticky leader a-1 [a-1]
        join b version=3 protocols=roundrobin,range
        join c version=3 protocols=roundrobin,range
        join a protocols=sticky,range,roundrobin
            a join: generation 2 roundrobin leader a-1 [a-1 b-2 c-3]
            b join: generation 2 roundrobin leader a-1
            c join: generation 2 roundrobin leader a-1
        """
    )


def test_a_full_group_turns_new_members_away(new_script):
    """group.max.size; members that are there may go on."""
    new_script(max_size=2).run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3
        join c version=3
        join a
            a join: GROUP_MAX_SIZE_REACHED
            b join: generation 2 range leader b-2 [b-2 c-3]
            c join: generation 2 range leader b-2
        join d version=3
            d join: GROUP_MAX_SIZE_REACHED
        join c
            c join: generation 2 range leader b-2
        """
    )


def test_a_group_that_is_larger_than_allowed_shrinks_after_a_restart(new_script):
    """When group.max.size has become smaller the members commit and join again; the last is out."""
    script = new_script()
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3
        join a
            a join: generation 2 range leader a-1 [a-1 b-2]
            b join: generation 2 range leader a-1
        sync a a-1=p0 b-2=p1
            record generation 2 range a-1=p0 b-2=p1
            a sync: p0
        """
    )
    script.settings = script.settings._replace(max_size=1)
    script.run(
        """
        restart
        beat a
            a beat: REBALANCE_IN_PROGRESS
        join a
        join b
            b join: GROUP_MAX_SIZE_REACHED
            a join: generation 3 range leader a-1 [a-1]
        """
    )


def test_members_that_join_again_unchanged(script):
    """A follower just missed an answer. The leader of a stable group begins a new generation."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3
        join a
            a join: generation 2 range leader a-1 [a-1 b-2]
            b join: generation 2 range leader a-1
        join b
            b join: generation 2 range leader a-1
        join a
            a join: generation 2 range leader a-1 [a-1 b-2]
        sync a a-1=p0 b-2=p1
            record generation 2 range a-1=p0 b-2=p1
            a sync: p0
        join b
            b join: generation 2 range leader a-1
        join b topics=other
        beat a
            a beat: REBALANCE_IN_PROGRESS
        join a
            a join: generation 3 range leader a-1 [a-1 b-2]
            b join: generation 3 range leader a-1
        sync a a-1=p0 b-2=p1
            record generation 3 range a-1=p0 b-2=p1
            a sync: p0
        join a
        beat b
            b beat: REBALANCE_IN_PROGRESS
        join b
            a join: generation 4 range leader a-1 [a-1 b-2]
            b join: generation 4 range leader a-1
        """
    )


def test_who_asks_twice_is_answered_twice(script):
    """A member that gave up waiting and joins again doesn't leave its first request hanging."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3
        join b id=b-2
            b join: REBALANCE_IN_PROGRESS b-2
        """
    )
