"""How members of a classic group leave, and what a restart of the broker leaves of it."""

TWO_MEMBERS = """
    join a version=3
        record generation 0 empty
        a join: generation 1 range leader a-1 [a-1]
    join b version=3
    join a
        a join: generation 2 range leader a-1 [a-1 b-2]
        b join: generation 2 range leader a-1
    sync b
    sync a a-1=p0 b-2=p1
        record generation 2 range a-1=p0 b-2=p1
        a sync: p0
        b sync: p1
"""


def test_members_leave(script):
    """A leaver's partitions are shared at once; the last one leaves an empty group behind."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        leave b
            leave: b-2 NONE
        beat a
            a beat: REBALANCE_IN_PROGRESS
        leave b
            leave: b-2 UNKNOWN_MEMBER_ID
        leave a
            record generation 3 empty
            leave: a-1 NONE
        show
            Empty generation 3
        """
    )


def test_members_leave_together_in_one_generation(script):
    """A batch of leavers, one of them unknown, rebalances once (KIP-345)."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        leave a nobody b
            record generation 3 empty
            leave: a-1 NONE ? UNKNOWN_MEMBER_ID b-2 NONE
        """
    )


def test_a_group_stays_as_it_is_when_only_strangers_leave(script):
    """A request that names nobody whom the group knows begins no rebalance."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        leave nobody
            leave: ? UNKNOWN_MEMBER_ID
        beat a
            a beat: ok
        """
    )


def test_leaving_ends_a_wait(script):
    """Those who wait for somebody who leaves go on; a leaver's own requests are answered."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        join c version=3
        join b
        leave a
            b join: generation 3 range leader b-2 [b-2 c-3]
            c join: generation 3 range leader b-2
            leave: a-1 NONE
        sync c
        leave c
            c sync: UNKNOWN_MEMBER_ID
            leave: c-3 NONE
        """
    )


def test_a_pending_member_leaves(script):
    """An id that was given out and not used is given back."""
    script.run(
        """
        join a
            record generation 0 empty
            a join: MEMBER_ID_REQUIRED a-1
        leave a
            leave: a-1 NONE
        show
            Empty generation 0
        """
    )


def test_a_stable_generation_survives_a_restart(script):
    """Members go on without a rebalance, and each has a whole session to be heard again."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        after 9
        restart
        show
            Stable generation 2 a-1*=p0 b-2=p1
        after 9
        beat a
            a beat: ok
        sync b
            b sync: p1
        after 9
        beat a
            a beat: ok
        after 2
        beat a
            a beat: REBALANCE_IN_PROGRESS
        """
    )


def test_a_rebalance_is_lost_in_a_restart(script):
    """The generation before it is what was written; its members join again."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        join c version=3
        restart
        show
            Stable generation 2 a-1*=p0 b-2=p1
        beat a
            a beat: ok
        join c id=c-3
            c join: UNKNOWN_MEMBER_ID
        """
    )
