"""Assignments lie at least the assignment interval apart."""


def test_members_that_come_together_are_assigned_together(new_script):
    """The first has everything until then."""
    script = new_script(assignment_interval_ms=1000)
    script.run(
        """
        topics t=4
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1,2,3
        join b
            b joins
            b: epoch 2 has -
        join c
            c joins
            c: epoch 2 has -
        show
            Assigning epoch 4 target 2
            a epoch 2 STABLE t:0,1,2,3 -> t:0,1,2,3
            b epoch 2 STABLE - -> -
            c epoch 2 STABLE - -> -
        beat a owns=?
            a: epoch 2
        after 0.5
        beat a owns=?
            a: epoch 2
        after 0.5
            +0.5s assigned at epoch 4 to 3 members, uniform
        beat a
            a: epoch 2 has t:0,1
        beat a
            a: epoch 4
        beat b
            b: epoch 4 has t:2
        beat c
            c: epoch 4 has t:3
        show
            Stable epoch 4 target 4
            a epoch 4 STABLE t:0,1 -> t:0,1
            b epoch 4 STABLE t:2 -> t:2
            c epoch 4 STABLE t:3 -> t:3
        """
    )


def test_what_is_unsubscribed_is_revoked_at_once(new_script):
    """Before there is a new target."""
    script = new_script(assignment_interval_ms=1000)
    script.run(
        """
        topics t=2 u=2
        join a topics=t,u
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1 u:0,1
        join b topics=t,u
            b joins
            b: epoch 2 has -
        beat a topics=u
            a subscribes to u
            a: epoch 2 has u:0,1
        show
            Assigning epoch 4 target 2
            a epoch 2 UNREVOKED_PARTITIONS u:0,1 revoking t:0,1 -> t:0,1 u:0,1
            b epoch 2 STABLE - -> -
        beat a
            a: epoch 2
        show
            Assigning epoch 4 target 2
            a epoch 2 STABLE u:0,1 -> t:0,1 u:0,1
            b epoch 2 STABLE - -> -
        after 1
            +1s assigned at epoch 4 to 2 members, uniform
        beat a
            a: epoch 4
        beat b
            b: epoch 4 has t:0,1
        show
            Stable epoch 4 target 4
            a epoch 4 STABLE u:0,1 -> u:0,1
            b epoch 4 STABLE t:0,1 -> t:0,1
        """
    )


def test_an_assignment_that_was_due_is_made_after_a_restart(new_script):
    """It is the first thing that is done."""
    script = new_script(assignment_interval_ms=1000)
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        join b
            b joins
            b: epoch 2 has -
        show
            Assigning epoch 3 target 2
            a epoch 2 STABLE t:0,1 -> t:0,1
            b epoch 2 STABLE - -> -
        restart
        after 1
            +1s assigned at epoch 3 to 2 members, uniform
        show
            Reconciling epoch 3 target 3
            a epoch 2 STABLE t:0,1 -> t:0
            b epoch 2 STABLE - -> t:1
        """
    )


def test_a_date_that_was_set_back_holds_no_assignment_up(new_script):
    """The last assignment seems to lie in the future then: the next one is computed at once."""
    script = new_script(assignment_interval_ms=1000)
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        """
    )
    script.now_ms -= 3_600_000
    script.trace.clear()
    script.run(
        """
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        """
    )
