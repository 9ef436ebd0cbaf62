"""Which way groups may go, and groups that are empty, as text scripts."""

from kwire.coordinator.consumer.settings import MigrationPolicy


def test_empty_groups_make_room_for_the_other_kind(script):
    """Both ways, whatever the policy."""
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
        old_join x
            x: MEMBER_ID_REQUIRED x-1
        old_join x
            x: x-1 generation 1 range leads
        old_sync x x=t:0
            x: has t:0
        show
            classic Stable
        old_leave x
            x-1 NONE
        show
            classic Empty
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0
        show
            Stable epoch 2 target 2
            a epoch 2 STABLE t:0 -> t:0
        leave a
            a is out: it left
            a: epoch -1
        delete
        show
            nothing
        """
    )


def test_without_a_policy_members_do_not_mix(new_script):
    """Neither way, while somebody is there."""
    script = new_script(migration_policy=MigrationPolicy.DISABLED)
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        old_join x
            INCONSISTENT_GROUP_PROTOCOL
        leave a
            a is out: it left
            a: epoch -1
        old_join x
            x: MEMBER_ID_REQUIRED x-2
        old_join x
            x: x-2 generation 1 range leads
        old_sync x x=t:0,1
            x: has t:0,1
        join a
            GROUP_ID_NOT_FOUND
        """
    )


def test_a_group_that_may_not_be_downgraded_stays(new_script):
    """With members of the classic protocol alone."""
    script = new_script(migration_policy=MigrationPolicy.UPGRADE)
    script.run(
        """
        topics t=2
        old_join x
            x: MEMBER_ID_REQUIRED x-1
        old_join x
            x: x-1 generation 1 range leads
        old_sync x x=t:0,1
            x: has t:0,1
        join a
            is a consumer group from now on
            a joins
            assigned at epoch 2 to 2 members, uniform
            a: epoch 2 has -
        leave a
            a is out: it left
            assigned at epoch 3 to 1 members, uniform
            a: epoch -1
        show
            Reconciling epoch 3 target 3
            x-1 epoch 1 STABLE t:0,1 -> t:0,1
        old_beat x
            REBALANCE_IN_PROGRESS
        old_join x
            x: x-1 generation 3 range
        old_sync x
            x: has t:0,1
        """
    )


def test_a_group_that_may_not_be_upgraded_stays(new_script):
    """It takes no members of the consumer protocol."""
    script = new_script(migration_policy=MigrationPolicy.DOWNGRADE)
    script.run(
        """
        topics t=2
        old_join x
            x: MEMBER_ID_REQUIRED x-1
        old_join x
            x: x-1 generation 1 range leads
        old_sync x x=t:0,1
            x: has t:0,1
        join a
            GROUP_ID_NOT_FOUND
        show
            classic Stable
        """
    )


def test_what_an_assignor_keeps_in_assignments_is_minded(script):
    """A group with an assignor of its own isn't upgraded if that would lose something."""
    script.run(
        """
        topics t=2
        old_join x protocols=mine
            x: MEMBER_ID_REQUIRED x-1
        old_join x protocols=mine
            x: x-1 generation 1 mine leads
        old_sync x x=t:0,1 protocol=mine user_data=secret
            x: has t:0,1
        join a
            GROUP_ID_NOT_FOUND
        old_join x protocols=mine,range topics=t,u
            x: x-1 generation 2 mine leads
        old_sync x x=t:0,1 protocol=mine
            x: has t:0,1
        join a
            is a consumer group from now on
            a joins
            assigned at epoch 3 to 2 members, uniform
            a: epoch 3 has -
        """
    )


def test_stock_assignors_may_keep_what_they_like(script):
    """It can be done without."""
    script.run(
        """
        topics t=2
        old_join x protocols=cooperative-sticky
            x: MEMBER_ID_REQUIRED x-1
        old_join x protocols=cooperative-sticky
            x: x-1 generation 1 cooperative-sticky leads
        old_sync x x=t:0,1 protocol=cooperative-sticky user_data=secret
            x: has t:0,1
        join a
            is a consumer group from now on
            a joins
            assigned at epoch 2 to 2 members, uniform
            a: epoch 2 has -
        """
    )
