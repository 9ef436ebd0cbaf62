"""Members of share groups join, share partitions, and leave; the epochs are Kafka's."""


def test_the_first_member_gets_partitions_once_they_have_states(script):
    """Epochs and records are those that Kafka 4.4.0 gives and writes for the same requests."""
    script.run(
        """
        topics t=4
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        records
            10 11 13 12 14 15
        beat a
            a: epoch 2
        states asked
            epoch 2: t-0 -1, t-1 -1, t-2 -1, t-3 -1
        states come
            assigned at epoch 3 to 1 members, simple
        records
            15 11 13 12
        beat a
            a: epoch 3 has t:0,1,2,3
        records
            14
        beat a
            a: epoch 3
        records
            none
        show
            Stable epoch 3 target 3
            a epoch 3 t:0,1,2,3 -> t:0,1,2,3
            initialized t:0,1,2,3
        """
    )


def test_members_share_partitions_and_the_last_one_leaves_an_empty_group(script):
    """The tombstones are in Kafka's order; the group stays, with its states."""
    script.run(
        """
        states come_at_once
        topics t=4
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
            assigned at epoch 3 to 1 members, simple
        join b
            b joins and subscribes to t
            assigned at epoch 4 to 2 members, simple
            b: epoch 4 has t:0,1
        beat a
            a: epoch 4 has t:2,3
        records
            10 11 13 12 14 15 15 11 13 12 10 11 13 13 12 14 14
        leave a
            a is out: it left
            assigned at epoch 5 to 1 members, simple
            a: epoch -1
        beat b
            b: epoch 5 has t:0,1,2,3
        records
            -14 -13 -10 11 13 12 14
        leave b
            b is out: it left
            b: epoch -1
        records
            -14 -13 -10 11 12
        show
            Empty epoch 6 target 6
            initialized t:0,1,2,3
        leave b
            b leave: UNKNOWN_MEMBER_ID
        delete
        records
            -12 -15 -11
        show
            nothing
        """
    )


def test_several_members_have_one_partition(script):
    """Nobody waits for anybody."""
    script.run(
        """
        states come_at_once
        topics t=1
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
            assigned at epoch 3 to 1 members, simple
        join b
            b joins and subscribes to t
            assigned at epoch 4 to 2 members, simple
            b: epoch 4 has t:0
        beat a
            a: epoch 4 has t:0
        """
    )


def test_epochs_fence_members(script):
    """The present epoch, the previous one and 0 are good; others aren't."""
    script.run(
        """
        states come_at_once
        topics t=1
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
            assigned at epoch 3 to 1 members, simple
        beat a
            a: epoch 3 has t:0
        beat a epoch=2
            a: epoch 3
        beat a epoch=1
            a beat: FENCED_MEMBER_EPOCH
        beat a epoch=4
            a beat: FENCED_MEMBER_EPOCH
        join a
            a: epoch 3 has t:0
        beat a topics=t
            a: epoch 3 has t:0
        beat b epoch=3
            b beat: UNKNOWN_MEMBER_ID
        """
    )


def test_requests_are_checked(script):
    """As Kafka 4.4.0 does it."""
    script.run(
        """
        topics t=1
        join a topics=
            a join: INVALID_REQUEST
        join a rack=
            a join: INVALID_REQUEST
        join a id=
            a join: INVALID_REQUEST
        join a id=1234567890123456789012345678901234567
            a join: INVALID_REQUEST
        join a epoch=-2
            a join: INVALID_REQUEST
        beat a epoch=1
            a beat: GROUP_ID_NOT_FOUND
        leave a
            a leave: GROUP_ID_NOT_FOUND
        """
    )


def test_a_group_has_a_largest_size(new_script):
    """A member that is in it may join again."""
    new_script(max_size=1).run(
        """
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        join b
            b join: GROUP_MAX_SIZE_REACHED
        join a
            a: epoch 2 has -
        """
    )


def test_a_session_ends(script):
    """Of a member that sends nothing; the other one gets its partitions."""
    script.run(
        """
        states come_at_once
        topics t=2
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
            assigned at epoch 3 to 1 members, simple
        join b
            b joins and subscribes to t
            assigned at epoch 4 to 2 members, simple
            b: epoch 4 has t:0
        after 40
        beat b
            b: epoch 4
        after 5
            +5s a is out: its session has ended
            +5s assigned at epoch 5 to 1 members, simple
        beat b
            b: epoch 5 has t:0,1
        """
    )


def test_subscriptions_differ_and_change(script):
    """A member loses what it no longer wants at once, and gets the rest when it has a state."""
    script.run(
        """
        states come_at_once
        topics t=2 u=1
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
            assigned at epoch 3 to 1 members, simple
        join b topics=t,u
            b joins and subscribes to t, u
            assigned at epoch 4 to 2 members, simple
            b: epoch 4 has t:0
            assigned at epoch 5 to 2 members, simple
        beat b
            b: epoch 5 has t:0 u:0
        beat b topics=u
            b subscribes to u
            assigned at epoch 6 to 2 members, simple
            b: epoch 6 has u:0
        beat a
            a: epoch 6 has t:0,1
        """
    )


def test_topics_come_grow_and_go(script):
    """A partition that is added later begins at its first record."""
    script.run(
        """
        join a topics=t,u
            a joins and subscribes to t, u
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        topics t=1
        beat a
            its topics have changed
            assigned at epoch 3 to 1 members, simple
            a: epoch 3
        states come
            assigned at epoch 4 to 1 members, simple
        beat a
            a: epoch 4 has t:0
        topics t=3
        beat a
            its topics have changed
            assigned at epoch 5 to 1 members, simple
            a: epoch 5
        states asked
            epoch 5: t-1 0, t-2 0
        states come
            assigned at epoch 6 to 1 members, simple
        beat a
            a: epoch 6 has t:0,1,2
        topics u=1
        beat a
            its topics have changed
            assigned at epoch 7 to 1 members, simple
            a: epoch 7 has -
        """
    )


def test_assignments_keep_a_distance(new_script):
    """Members that join one after the other share one assignment, as in KIP-1263."""
    new_script(assignment_interval_ms=1000).run(
        """
        states come_at_once
        topics t=4
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
            assigned at epoch 3 to 1 members, simple
        join b
            b joins and subscribes to t
            b: epoch 3 has -
        join c
            c joins and subscribes to t
            c: epoch 3 has -
        after 1
            +1s assigned at epoch 5 to 3 members, simple
        beat b
            b: epoch 5 has t:0
        beat c
            c: epoch 5 has t:1
        beat a
            a: epoch 5 has t:2,3
        """
    )
