"""Groups that change their kind with members in them, as text scripts."""


def test_a_classic_group_is_upgraded(script):
    """Its members keep what they have, and go on with their protocol."""
    script.run(
        """
        topics t=4
        old_join x
            x: MEMBER_ID_REQUIRED x-1
        old_join x
            x: x-1 generation 1 range leads
        old_join y
            y: MEMBER_ID_REQUIRED y-2
        old_sync x x=t:0,1,2,3
            x: has t:0,1,2,3
        old_join y
        old_beat x
            REBALANCE_IN_PROGRESS
        old_join x
            x: x-1 generation 2 range leads
            y: y-2 generation 2 range
        old_sync x x=t:0,1 y=t:2,3
            x: has t:0,1
        old_sync y
            y: has t:2,3
        join a
            is a consumer group from now on
            a joins
            assigned at epoch 3 to 3 members, uniform
            a: epoch 3 has -
        show
            Reconciling epoch 3 target 3
            x-1 epoch 2 STABLE t:0,1 -> t:0,1
            y-2 epoch 2 STABLE t:2,3 -> t:2
            a epoch 3 UNRELEASED_PARTITIONS - -> t:3
        old_beat x
            REBALANCE_IN_PROGRESS
        old_join x
            x: x-1 generation 3 range
        old_sync x
            x: has t:0,1
        old_beat y
            REBALANCE_IN_PROGRESS
        old_join y
            y: y-2 generation 2 range
        old_sync y
            y: has t:2
        old_beat y
            REBALANCE_IN_PROGRESS
        old_join y
            y: y-2 generation 3 range
        old_sync y
            y: has t:2
        beat a
            a: epoch 3 has t:3
        show
            Stable epoch 3 target 3
            x-1 epoch 3 STABLE t:0,1 -> t:0,1
            y-2 epoch 3 STABLE t:2 -> t:2
            a epoch 3 STABLE t:3 -> t:3
        restart
        show
            Stable epoch 3 target 3
            x-1 epoch 3 STABLE t:0,1 -> t:0,1
            y-2 epoch 3 STABLE t:2 -> t:2
            a epoch 3 STABLE t:3 -> t:3
        """
    )


def test_a_consumer_group_is_downgraded(script):
    """When its last member of the consumer protocol leaves, the others rebalance."""
    script.run(
        """
        topics t=4
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1,2,3
        old_join x id=x
            x joins with the classic protocol
            assigned at epoch 3 to 2 members, uniform
            x: x generation 3 range
        old_join y id=y
            y joins with the classic protocol
            assigned at epoch 4 to 3 members, uniform
            y: y generation 4 range
        beat a
            a: epoch 2 has t:0,1
        beat a
            a: epoch 4
        old_join x
            x: x generation 4 range
        old_join y
            y: y generation 4 range
        old_sync x
            x: has t:2
        old_sync y
            y: has t:3
        show
            Stable epoch 4 target 4
            a epoch 4 STABLE t:0,1 -> t:0,1
            x epoch 4 STABLE t:2 -> t:2
            y epoch 4 STABLE t:3 -> t:3
        leave a
            a: epoch -1
        show
            classic PreparingRebalance
        old_beat x
            REBALANCE_IN_PROGRESS
        old_join x
        old_join y
            x: x generation 5 range leads
            y: y generation 5 range
        old_sync x x=t:0,1 y=t:2,3
            x: has t:0,1
        old_sync y
            y: has t:2,3
        restart
        show
            classic Stable
        """
    )


def test_a_downgraded_group_knows_what_its_members_have(script):
    """It is in the group's record: after a restart they go on with it."""
    script.run(
        """
        topics t=4
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1,2,3
        old_join x id=x
            x joins with the classic protocol
            assigned at epoch 3 to 2 members, uniform
            x: x generation 3 range
        beat a
            a: epoch 2 has t:0,1
        beat a
            a: epoch 3
        old_join x
            x: x generation 3 range
        old_sync x
            x: has t:2,3
        leave a
            a: epoch -1
        restart
        show
            classic Stable
        old_sync x
            x: has t:2,3
        """
    )


def test_a_silent_member_downgrades_too(new_script):
    """The group doesn't wait for it for ever."""
    script = new_script(session_timeout_ms=5_000)
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        old_join x id=x
            x joins with the classic protocol
            assigned at epoch 3 to 2 members, uniform
            x: x generation 3 range
        old_sync x
            x: has -
        after 5
        show
            classic PreparingRebalance
        old_beat x
            REBALANCE_IN_PROGRESS
        """
    )


def test_a_classic_group_is_upgraded_before_its_first_generation(script):
    """It has no protocol yet: each member's own first one counts."""
    script.initial_rebalance_delay_ms = 3000
    script.load()
    script.run(
        """
        topics t=2
        old_join x
            x: MEMBER_ID_REQUIRED x-1
        old_join x protocols=range,roundrobin
        show
            classic PreparingRebalance
        join a
            is a consumer group from now on
            a joins
            assigned at epoch 1 to 2 members, uniform
            x: REBALANCE_IN_PROGRESS x-1
            a: epoch 1 has t:0
        show
            Reconciling epoch 1 target 1
            x-1 epoch 0 STABLE - -> t:1
            a epoch 1 STABLE t:0 -> t:0
        """
    )


def test_classic_members_wait_who_were_rebalancing(script):
    """They are told to join again when the group is upgraded."""
    script.run(
        """
        topics t=2
        old_join x
            x: MEMBER_ID_REQUIRED x-1
        old_join x
            x: x-1 generation 1 range leads
        old_sync x x=t:0,1
            x: has t:0,1
        old_join y
            y: MEMBER_ID_REQUIRED y-2
        old_join y
        join a
            is a consumer group from now on
            a joins
            assigned at epoch 2 to 3 members, uniform
            y: REBALANCE_IN_PROGRESS y-2
            a: epoch 2 has -
        show
            Reconciling epoch 2 target 2
            x-1 epoch 1 STABLE t:0,1 -> t:0
            y-2 epoch 1 STABLE - -> -
            a epoch 2 UNRELEASED_PARTITIONS - -> t:1
        old_join x
            x: x-1 generation 1 range
        old_sync x
            x: has t:0
        old_join y
            y: y-2 generation 2 range
        old_sync y
            y: has -
        """
    )


def test_a_static_member_changes_its_protocol(script):
    """In the place of the last one of the consumer protocol."""
    script.run(
        """
        topics t=2
        join a instance=one
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        old_join x
            x: MEMBER_ID_REQUIRED x-1
        old_join x
            x-1 joins with the classic protocol
            assigned at epoch 3 to 2 members, uniform
            x: x-1 generation 3 range
        beat a instance=one
            a: epoch 2 has t:0
        beat a instance=one
            a: epoch 3
        old_beat x
            REBALANCE_IN_PROGRESS
        old_join x
            x: x-1 generation 3 range
        old_sync x
            x: has t:1
        show
            Stable epoch 3 target 3
            a epoch 3 STABLE t:0 -> t:0
            x-1 epoch 3 STABLE t:1 -> t:1
        old_join y instance=one
        show
            classic PreparingRebalance
        old_beat x
            REBALANCE_IN_PROGRESS
        old_join x
            x: x-1 generation 4 range leads
            y: one-4 generation 4 range
        old_sync y y=t:0 x=t:1
        """
    )


def test_what_members_have_comes_along_from_the_middle_of_a_rebalance(script):
    """A member that rebalances cooperatively has it still: nobody else may get it yet."""
    script.run(
        """
        topics t=4
        old_join x version=3
            x: x-1 generation 1 range leads
        old_sync x x=t:0,1,2,3
            x: has t:0,1,2,3
        old_join y version=3
        old_join x
            x: x-1 generation 2 range leads
            y: y-2 generation 2 range
        old_join z version=3
        join a
            is a consumer group from now on
            a joins
            assigned at epoch 3 to 4 members, uniform
            z: REBALANCE_IN_PROGRESS z-3
            a: epoch 3 has -
        show
            Reconciling epoch 3 target 3
            x-1 epoch 2 STABLE t:0,1,2,3 -> t:0
            y-2 epoch 2 STABLE - -> t:2
            z-3 epoch 2 STABLE - -> t:3
            a epoch 3 UNRELEASED_PARTITIONS - -> t:1
        """
    )
