"""How generations of a classic group come about and end."""

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


def test_a_follower_waits_for_the_leaders_assignment(script):
    """Two members; whoever syncs first waits, and the record is written before anyone is told."""
    script.run(TWO_MEMBERS)


def test_a_member_without_an_assignment_gets_an_empty_one(script):
    """The leader may leave members out."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        sync a
            record generation 1 range a-1=
            a sync: nothing
        sync a
            a sync: nothing
        """
    )


def test_the_first_rebalance_waits_for_more_members(new_script):
    """group.initial.rebalance.delay.ms, anew while members come, up to the rebalance timeout."""
    new_script(initial_rebalance_delay_ms=3000).run(
        """
        join a version=3 rebalance=8
            record generation 0 empty
        after 2
        join b version=3 rebalance=8
        after 2
        join c version=3 rebalance=8
        after 2.9
        join d version=3 rebalance=8
        after 5
            +1.1s a join: generation 1 range leader a-1 [a-1 b-2 c-3 d-4]
            +1.1s b join: generation 1 range leader a-1
            +1.1s c join: generation 1 range leader a-1
            +1.1s d join: generation 1 range leader a-1
        """
    )


def test_the_initial_delay_ends_when_nobody_else_comes(new_script):
    """One member alone waits the delay once."""
    new_script(initial_rebalance_delay_ms=3000).run(
        """
        join a version=3
            record generation 0 empty
        after 10
            +3s a join: generation 1 range leader a-1 [a-1]
        """
    )


def test_members_that_start_together_share_the_first_generation(script):
    """The first one waits for those who have been given an id; not longer than a moment."""
    script.run(
        """
        join a
            record generation 0 empty
            a join: MEMBER_ID_REQUIRED a-1
        join b
            b join: MEMBER_ID_REQUIRED b-2
        join a
        join b
            a join: generation 1 range leader a-1 [a-1 b-2]
            b join: generation 1 range leader a-1
        """
    )
    script.coordinator.groups.clear()
    script.clients.clear()
    script.run(
        """
        join c
            record generation 0 empty
            c join: MEMBER_ID_REQUIRED c-3
        join gone
            gone join: MEMBER_ID_REQUIRED gone-4
        join c
        after 5
            +0.25s c join: generation 1 range leader c-3 [c-3]
        """
    )


def test_who_does_not_join_again_in_time_is_out(script):
    """The rebalance timeout ends the wait; heartbeats alone don't keep a member."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        join c version=3 rebalance=20
        join a
        after 9
        beat b
            b beat: REBALANCE_IN_PROGRESS
        after 9
        beat b
            b beat: REBALANCE_IN_PROGRESS
        after 9
        beat b
            b beat: REBALANCE_IN_PROGRESS
        after 9
        beat b
            b beat: REBALANCE_IN_PROGRESS
        after 9
        beat b
            b beat: REBALANCE_IN_PROGRESS
        after 9
        beat b
            b beat: REBALANCE_IN_PROGRESS
        after 9
            +6s a join: generation 3 range leader a-1 [a-1 c-3]
            +6s c join: generation 3 range leader a-1
        beat b
            b beat: UNKNOWN_MEMBER_ID
        """
    )


def test_a_leader_that_stays_away_is_replaced(script):
    """Somebody who has joined leads the next generation."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        join b topics=other
        after 10
            +10s b join: generation 3 range leader b-2 [b-2]
        """
    )


def test_silent_members_lose_their_session(script):
    """The others share what a silent member had; heartbeats, syncs and commits keep a session."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        after 6
        beat a
            a beat: ok
        commit b t-1=5
            record t-1=5
        after 6
        beat a
            a beat: ok
        after 4
        beat a
            a beat: REBALANCE_IN_PROGRESS
        join a
            a join: generation 3 range leader a-1 [a-1]
        after 10
            +10s record generation 4 empty
        sync a a-1=p0+p1
            a sync: UNKNOWN_MEMBER_ID
        show
            Empty generation 4
            offset t-1=5
        """
    )


def test_a_member_that_waits_is_not_silent(script):
    """Who waits for the others' joins or for the leader's assignment can't be blamed."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        join c version=3
        join b
        after 9
        beat a
            a beat: REBALANCE_IN_PROGRESS
        after 9
        join a
            a join: generation 3 range leader a-1 [a-1 b-2 c-3]
            b join: generation 3 range leader a-1
            c join: generation 3 range leader a-1
        sync b
        sync c
        after 9
        beat a
            a beat: ok
        after 9
        sync a a-1=p0 b-2=p1
            record generation 3 range a-1=p0 b-2=p1 c-3=
            a sync: p0
            b sync: p1
            c sync: nothing
        """
    )


def test_a_new_member_does_not_wait_for_ever(new_script):
    """It can't send heartbeats, so it is given five minutes and then asked to begin anew."""
    new_script(initial_rebalance_delay_ms=600_000).run(
        """
        join a version=3 rebalance=900
            record generation 0 empty
        after 300
            +300s record generation 1 empty
            +300s a join: UNKNOWN_MEMBER_ID a-1
        """
    )


def test_who_joins_but_never_syncs_is_out(script):
    """The same time that was given for joining, counted from the new generation."""
    script.run(
        """
        join a version=3 rebalance=8
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3 rebalance=8
        join a rebalance=8
            a join: generation 2 range leader a-1 [a-1 b-2]
            b join: generation 2 range leader a-1
        sync b
        after 8
            +8s b sync: REBALANCE_IN_PROGRESS
        join b
            b join: generation 3 range leader b-2 [b-2]
        """
    )


def test_a_follower_that_never_syncs_is_out_though_the_group_is_stable(script):
    """The group is stable once the leader has synced; a follower still has to fetch its part."""
    script.run(
        """
        join a version=3 rebalance=8
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        join b version=3 rebalance=8
        join a rebalance=8
            a join: generation 2 range leader a-1 [a-1 b-2]
            b join: generation 2 range leader a-1
        sync a a-1=p0 b-2=p1
            record generation 2 range a-1=p0 b-2=p1
            a sync: p0
        after 7
        beat b
            b beat: ok
        beat a
            a beat: ok
        after 2
        beat a
            a beat: REBALANCE_IN_PROGRESS
        beat b
            b beat: UNKNOWN_MEMBER_ID
        """
    )


def test_a_rebalance_interrupts_those_who_wait_for_an_assignment(script):
    """REBALANCE_IN_PROGRESS: their generation will never have one."""
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
        join c version=3
            b sync: REBALANCE_IN_PROGRESS
        sync a a-1=p0
            a sync: REBALANCE_IN_PROGRESS
        """
    )


def test_generations_and_protocols_are_checked(script):
    """Requests of another generation, member or protocol get the error that says which."""
    script.run(TWO_MEMBERS)
    script.run(
        """
        beat a generation=1
            a beat: ILLEGAL_GENERATION
        beat a id=x
            a beat: UNKNOWN_MEMBER_ID
        beat a instance=i
            a beat: UNKNOWN_MEMBER_ID
        sync a generation=3
            a sync: ILLEGAL_GENERATION
        sync a id=x
            a sync: UNKNOWN_MEMBER_ID
        sync a type=connect
            a sync: INCONSISTENT_GROUP_PROTOCOL
        sync a protocol=sticky
            a sync: INCONSISTENT_GROUP_PROTOCOL
        sync a type=consumer protocol=range
            a sync: p0
        """
    )


def test_a_rebalance_timeout_of_nothing_ends_at_once(script):
    """A member that gives the others no time at all doesn't make the coordinator spin."""
    script.run(
        """
        join a version=3 rebalance=0 instance=i
            record generation 0 empty
            a join: generation 1 range leader i-1 [i-1]
        after 1
            +0s record generation 2 empty
        """
    )
