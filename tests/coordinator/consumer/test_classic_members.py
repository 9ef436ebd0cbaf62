"""Members of the classic protocol in consumer groups, as text scripts."""


def test_classic_members_are_refused(script):
    """Where they don't fit, and what isn't theirs to ask."""
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        old_join x type=connect
            INCONSISTENT_GROUP_PROTOCOL
        old_join x session=1
            INVALID_SESSION_TIMEOUT
        old_join x id=x-1
            x-1 joins with the classic protocol
            assigned at epoch 3 to 2 members, uniform
            x: x-1 generation 3 range
        old_sync x protocol=sticky
            INCONSISTENT_GROUP_PROTOCOL
        old_sync x generation=1
            ILLEGAL_GENERATION
        old_beat x generation=1
            ILLEGAL_GENERATION
        old_join y protocols=sticky id=y-1
            INCONSISTENT_GROUP_PROTOCOL
        old_join y protocols=sticky,range id=y-1
            y-1 joins with the classic protocol
            assigned at epoch 4 to 3 members, uniform
            y: y-1 generation 4 sticky
        old_sync a
            UNKNOWN_MEMBER_ID
        old_leave x instance=nobody
            x-1 is out: it left (reason: not provided)
            assigned at epoch 5 to 2 members, uniform
            x-1 NONE nobody UNKNOWN_MEMBER_ID
        show
            Reconciling epoch 5 target 5
            a epoch 2 STABLE t:0,1 -> t:0
            y-1 epoch 4 STABLE - -> t:1
        """
    )


def test_what_a_classic_member_subscribes_to_outlives_its_coordinator(script):
    """A member that joins again writes its changed description, and only then."""
    script.run(
        """
        topics t=1 u=1
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0
        old_join x id=x-1 topics=t
            x-1 joins with the classic protocol
            assigned at epoch 3 to 2 members, uniform
            x: x-1 generation 3 range
        old_join x id=x-1 topics=u
            assigned at epoch 4 to 2 members, uniform
            x: x-1 generation 4 range
        """
    )
    assert script.group.members["x-1"].about.topics == ("u",)
    before = len(script.log)
    script.run(
        """
        old_join x id=x-1 topics=u
            x: x-1 generation 4 range
        """
    )
    assert len(script.log) == before
    script.run("restart")
    assert script.group.members["x-1"].about.topics == ("u",)


def test_an_operator_removes_members_of_any_protocol(script):
    """With LeaveGroup, as admin clients do."""
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        join b instance=one
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        old_leave a instance=one
            a is out: it left (reason: not provided)
            b is out: it left (reason: not provided)
            a NONE one NONE
        show
            Empty epoch 4 target 3
        """
    )


def test_classic_members_have_to_join_and_sync_in_time(script):
    """In their rebalance timeout."""
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        old_join x id=x rebalance=5
            x joins with the classic protocol
            assigned at epoch 3 to 2 members, uniform
            x: x generation 3 range
        after 4
        old_beat x
            ok
        after 1
            +1s x is out: it did not sync in time
            +1s assigned at epoch 4 to 1 members, uniform
        old_join x id=x rebalance=5
            x joins with the classic protocol
            assigned at epoch 5 to 2 members, uniform
            x: x generation 5 range
        old_sync x
            x: has -
        join b
            b joins
            assigned at epoch 6 to 3 members, uniform
            b: epoch 6 has -
        old_beat x
            REBALANCE_IN_PROGRESS
        after 3
        old_beat x
            REBALANCE_IN_PROGRESS
        after 2
            +2s x is out: it did not join again in time
            +2s assigned at epoch 7 to 2 members, uniform
        """
    )
