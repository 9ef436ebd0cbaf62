"""Static members (KIP-345): known by their instance, back without a rebalance, fenced."""

STATIC_PAIR = """
    join a instance=i version=3
        record generation 0 empty
        a join: generation 1 range leader i-1 [i-1]
    join b instance=j
    join a instance=i
        a join: generation 2 range leader i-1 [i-1 j-2]
        b join: generation 2 range leader i-1
    sync b instance=j
    sync a instance=i i-1=p0 j-2=p1
        record generation 2 range i-1=p0 j-2=p1
        a sync: p0
        b sync: p1
"""


def test_a_follower_that_comes_back_keeps_its_part(script):
    """It gets a new id and its old assignment, in the same generation."""
    script.run(STATIC_PAIR)
    script.run(
        """
        join b2 instance=j
            record generation 2 range i-1=p0 j-3=p1
            b2 join: generation 2 range leader i-1
        sync b2 instance=j
            b2 sync: p1
        beat a instance=i
            a beat: ok
        restart
        beat b2 instance=j
            b2 beat: ok
        """
    )


def test_a_leader_that_comes_back_does_not_assign_anew(script):
    """From version 9 on it is told to skip that (KIP-814); before, that its former self leads."""
    script.run(STATIC_PAIR)
    script.run(
        """
        join a2 instance=i
            record generation 2 range i-3=p0 j-2=p1
            a2 join: generation 2 range leader i-3 [i-3 j-2] skips the assignment
        sync a2 instance=i
            a2 sync: p0
        join a3 instance=i version=8
            record generation 2 range i-4=p0 j-2=p1
            a3 join: generation 2 range leader i-3
        sync a3 instance=i
            a3 sync: p0
        """
    )


def test_the_former_self_is_fenced(script):
    """FENCED_INSTANCE_ID for whatever it sends."""
    script.run(STATIC_PAIR)
    script.run(
        """
        join b2 instance=j
            record generation 2 range i-1=p0 j-3=p1
            b2 join: generation 2 range leader i-1
        beat b instance=j
            b beat: FENCED_INSTANCE_ID
        sync b instance=j
            b sync: FENCED_INSTANCE_ID
        join b instance=j
            b join: FENCED_INSTANCE_ID
        commit b instance=j t-0=1
            b commit: FENCED_INSTANCE_ID
        leave b
            leave: j-2 UNKNOWN_MEMBER_ID
        """
    )


def test_what_the_former_self_waits_for_is_fenced_too(script):
    """Its JoinGroup or SyncGroup is answered at once."""
    script.run(STATIC_PAIR)
    script.run(
        """
        join c version=3
        join b instance=j
        join b2 instance=j
            b join: FENCED_INSTANCE_ID j-2
        join a instance=i
            a join: generation 3 range leader i-1 [i-1 j-4 c-3]
            b2 join: generation 3 range leader i-1
            c join: generation 3 range leader i-1
        sync b2 instance=j
        join b3 instance=j
            b2 sync: FENCED_INSTANCE_ID
        beat a instance=i
            a beat: REBALANCE_IN_PROGRESS
        """
    )


def test_another_subscription_rebalances(script):
    """A member that came back for other topics has to be given its part anew."""
    script.run(STATIC_PAIR)
    script.run(
        """
        join b2 instance=j topics=other
        beat a instance=i
            a beat: REBALANCE_IN_PROGRESS
        join a instance=i
            a join: generation 3 range leader i-1 [i-1 j-3]
            b2 join: generation 3 range leader i-1
        """
    )


def test_another_protocol_rebalances(script):
    """A member that came back and changes the vote makes a new generation."""
    script.run(
        """
        join a instance=i version=3 protocols=range,sticky
            record generation 0 empty
            a join: generation 1 range leader i-1 [i-1]
        sync a instance=i i-1=p0
            record generation 1 range i-1=p0
            a sync: p0
        join a2 id= instance=i protocols=sticky,range
            a2 join: generation 2 sticky leader i-2 [i-2]
        """
    )


def test_static_members_survive_a_rebalance_they_miss(script):
    """Only the end of its session takes a static member out."""
    script.run(STATIC_PAIR)
    script.run(
        """
        beat b instance=j id=j-2
            b beat: ok
        join a instance=i session=30 rebalance=7 topics=u
        after 7
        after 3
            +3s a join: generation 3 range leader i-1 [i-1]
        """
    )


def test_an_instance_is_removed_by_name(script):
    """An administrator's LeaveGroup names the instance and no member."""
    script.run(STATIC_PAIR)
    script.run(
        """
        leave instance=j
            leave: j NONE
        leave instance=j
            leave: j UNKNOWN_MEMBER_ID
        beat a instance=i
            a beat: REBALANCE_IN_PROGRESS
        """
    )


def test_a_pending_id_does_not_serve_an_instance(script):
    """Ids are given out to dynamic members alone, so nobody takes an instance over with one."""
    script.run(STATIC_PAIR)
    script.run(
        """
        join c
            c join: MEMBER_ID_REQUIRED c-3
        join c instance=j
            c join: FENCED_INSTANCE_ID
        """
    )


def test_a_replacement_that_cannot_be_written_is_taken_back(script):
    """The old member stays what it was."""
    script.run(STATIC_PAIR)
    script.run(
        """
        writes fail
        join b2 instance=j
            b2 join: NOT_COORDINATOR
        beat b instance=j
            b beat: ok
        sync b instance=j
            b sync: p1
        """
    )
