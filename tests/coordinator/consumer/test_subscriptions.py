"""What members subscribe to, and the topics that come and go, as text scripts."""


def test_a_member_changes_its_subscription(script):
    """What it doesn't subscribe to any more is revoked first."""
    script.run(
        """
        topics t=2 u=2
        join a topics=t
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        beat a topics=t,u
            a subscribes to t, u
            assigned at epoch 3 to 1 members, uniform
            a: epoch 3 has t:0,1 u:0,1
        beat a topics=u
            a subscribes to u
            assigned at epoch 4 to 1 members, uniform
            a: epoch 3 has u:0,1
        show
            Reconciling epoch 4 target 4
            a epoch 3 UNREVOKED_PARTITIONS u:0,1 revoking t:0,1 -> u:0,1
        beat a
            a: epoch 4
        show
            Stable epoch 4 target 4
            a epoch 4 STABLE u:0,1 -> u:0,1
        beat a topics=
            a subscribes to nothing
            assigned at epoch 5 to 1 members, uniform
            a: epoch 4 has -
        beat a
            a: epoch 5
        show
            Stable epoch 5 target 5
            a epoch 5 STABLE - -> -
        """
    )


def test_topics_come_grow_and_go(script):
    """The next heartbeat of any member finds out."""
    script.run(
        """
        topics u=1
        join a topics=t
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has -
        join b topics=t,u
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has u:0
        beat a
            a: epoch 3
        topics t=3 u=1
        beat a
            its topics have changed
            assigned at epoch 4 to 2 members, uniform
            a: epoch 4 has t:0,1
        beat b
            b: epoch 4 has t:2 u:0
        beat b
            b: epoch 4
        beat a
            a: epoch 4
        topics t=5 u=1
        beat b
            its topics have changed
            assigned at epoch 5 to 2 members, uniform
            b: epoch 5 has t:2,4 u:0
        beat b
            b: epoch 5
        beat a
            a: epoch 5 has t:0,1,3
        topics u=1
        beat a
            its topics have changed
            assigned at epoch 6 to 2 members, uniform
            a: epoch 5 has -
        beat a
            a: epoch 6
        beat b
            b: epoch 5 has u:0
        show
            Reconciling epoch 6 target 6
            a epoch 6 STABLE - -> -
            b epoch 5 UNREVOKED_PARTITIONS u:0 revoking t:2,4 -> u:0
        """
    )


def test_members_subscribe_by_regular_expression(script):
    """RE2's syntax, whole names, new topics included."""
    script.run(
        """
        topics t-1=2 t-2=2 u=2
        join a regex=t-.*
            a joins
            assigned at epoch 1 to 1 members, uniform
            a: epoch 1 has -
            assigned at epoch 2 to 1 members, uniform
        beat a
            a: epoch 2 has t-1:0,1 t-2:0,1
        join b regex=t-.*
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        beat a
            a: epoch 2 has t-1:0 t-2:0
        beat a
            a: epoch 3
        beat b
            b: epoch 3 has t-1:1 t-2:1
        topics t-1=2 t-2=2 t-3=2 u=2
        beat b
            its topics have changed
            assigned at epoch 4 to 2 members, uniform
            b: epoch 4 has t-1:1 t-2:1 t-3:1
        beat a
            a: epoch 4 has t-1:0 t-2:0 t-3:0
        beat a regex=u topics=
            a subscribes to /u/
            a: epoch 4 has -
            assigned at epoch 5 to 2 members, uniform
        beat a
            a: epoch 5 has u:0,1
        beat b
            b: epoch 5 has t-1:0,1 t-2:0,1 t-3:0,1
        show
            Stable epoch 5 target 5
            a epoch 5 STABLE u:0,1 -> u:0,1
            b epoch 5 STABLE t-1:0,1 t-2:0,1 t-3:0,1 -> t-1:0,1 t-2:0,1 t-3:0,1
        join c regex=t(
            INVALID_REGULAR_EXPRESSION
        join d regex=(?=t)
            INVALID_REGULAR_EXPRESSION
        beat b regex= topics=u
            b subscribes to u
            assigned at epoch 6 to 2 members, uniform
            b: epoch 5 has -
        restart
        show
            Reconciling epoch 6 target 6
            a epoch 5 STABLE u:0,1 -> u:0
            b epoch 5 UNREVOKED_PARTITIONS - revoking t-1:0,1 t-2:0,1 t-3:0,1 -> u:1
        """
    )


def test_topics_of_names_come_before_those_of_a_new_expression(new_script):
    """In two assignments, as in Kafka, also if another group's members have had it matched."""
    script = new_script(assignment_interval_ms=1000)
    for _ in range(2):
        script.run(
            """
            topics r-1=1 r-2=1 l=2
            join a regex=r.* topics=l
                a joins
                assigned at epoch 2 to 1 members, uniform
                a: epoch 2 has l:0,1
            after 1
                +1s assigned at epoch 3 to 1 members, uniform
            beat a
                a: epoch 3 has l:0,1 r-1:0 r-2:0
            leave a
                a is out: it left
                a: epoch -1
            delete
            """
        )


def test_a_member_with_a_new_expression_alone_waits_for_no_interval(new_script):
    """Nothing was assigned before its topics are known."""
    new_script(assignment_interval_ms=1000).run(
        """
        topics t=2
        join a regex=t.*
            a joins
            assigned at epoch 1 to 1 members, uniform
            a: epoch 1 has -
            assigned at epoch 2 to 1 members, uniform
        beat a
            a: epoch 2 has t:0,1
        """
    )


def test_a_new_expression_that_matches_nothing_changes_no_epoch(script):
    """As in Kafka, which doesn't know yet what it stands for; its topics do when they come."""
    script.run(
        """
        topics u=2
        join a regex=t-.*
            a joins
            assigned at epoch 1 to 1 members, uniform
            a: epoch 1 has -
        restart
        show
            Stable epoch 1 target 1
            a epoch 1 STABLE - -> -
        beat a regex=v-.*
            a subscribes to /v-.*/
            a: epoch 1
        join b regex=v-.*
            b joins
            assigned at epoch 2 to 2 members, uniform
            b: epoch 2 has -
        beat a
            a: epoch 2
        topics u=2 v-1=1
        beat a
            its topics have changed
            assigned at epoch 3 to 2 members, uniform
            a: epoch 3 has v-1:0
        """
    )
