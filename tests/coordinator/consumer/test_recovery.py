"""Restarts, and records that can't be written, as text scripts."""


def test_members_go_on_after_a_restart(script):
    """With as much time as they had to give partitions back."""
    script.run(
        """
        topics t=2
        join a rebalance=20
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        beat a
            a: epoch 2 has t:0
        restart
        show
            Reconciling epoch 3 target 3
            a epoch 2 UNREVOKED_PARTITIONS t:0 revoking t:1 -> t:0
            b epoch 3 UNRELEASED_PARTITIONS - -> t:1
        after 19
        beat a owns=t:0
            a: epoch 3
        beat b
            b: epoch 3 has t:1
        show
            Stable epoch 3 target 3
            a epoch 3 STABLE t:0 -> t:0
            b epoch 3 STABLE t:1 -> t:1
        """
    )


def test_timeouts_hold_after_a_restart(script):
    """Of revocations and of sessions."""
    script.run(
        """
        topics t=2
        join a rebalance=20
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        beat a
            a: epoch 2 has t:0
        restart
        after 20
            +20s a is out: it did not give its partitions back in time
            +20s assigned at epoch 4 to 1 members, uniform
        beat b
            b: epoch 4 has t:0,1
        after 45
            +45s b is out: its session has ended
        """
    )


def test_nothing_changes_that_is_not_written(script):
    """Neither who is in, nor who should be out by now."""
    script.run(
        """
        topics t=2
        writes fail
        join a
            a: NOT_COORDINATOR
        show
            nothing
        writes work
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        writes fail
        join b
            b: NOT_COORDINATOR
        leave a
            a: NOT_COORDINATOR
        show
            Stable epoch 2 target 2
            a epoch 2 STABLE t:0,1 -> t:0,1
        writes work
        beat a
            a: epoch 2
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        after 44
        writes fail
        after 2
        writes work
        after 1
            +1s a is out: its session has ended
            +1s b is out: its session has ended
        show
            Empty epoch 4 target 3
        """
    )


def test_a_conversion_that_is_not_written_did_not_happen(script):
    """The group is as it was, both ways."""
    script.run(
        """
        topics t=2
        old_join x
            x: MEMBER_ID_REQUIRED x-1
        old_join x
            x: x-1 generation 1 range leads
        old_sync x x=t:0,1
            x: has t:0,1
        writes fail
        join a
            a: NOT_COORDINATOR
        show
            classic Stable
        writes work
        old_beat x
            ok
        join a
            is a consumer group from now on
            a joins
            assigned at epoch 2 to 2 members, uniform
            a: epoch 2 has -
        writes fail
        leave a
            a: NOT_COORDINATOR
        show
            Reconciling epoch 2 target 2
            x-1 epoch 1 STABLE t:0,1 -> t:0
            a epoch 2 UNRELEASED_PARTITIONS - -> t:1
        """
    )


def test_an_empty_group_that_is_not_replaced_stays(script):
    """The tombstones of the old go with the new."""
    script.run(
        """
        topics t=1
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0
        leave a
            a is out: it left
            a: epoch -1
        writes fail
        old_join x
            x: NOT_COORDINATOR
        old_join x
            x: NOT_COORDINATOR
        writes work
        show
            Empty epoch 3 target 2
        """
    )
