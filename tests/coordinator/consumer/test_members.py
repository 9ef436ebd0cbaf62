"""Members of the consumer protocol: joining, sharing, fencing, leaving, as text scripts."""


def test_members_share_partitions(script):
    """Revocation comes before assignment, and the survivor of a group takes all."""
    script.run(
        """
        topics t=4
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1,2,3
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        beat a
            a: epoch 2 has t:0,1
        beat b
            b: epoch 3
        beat a
            a: epoch 3
        beat b
            b: epoch 3 has t:2,3
        show
            Stable epoch 3 target 3
            a epoch 3 STABLE t:0,1 -> t:0,1
            b epoch 3 STABLE t:2,3 -> t:2,3
        leave a
            a is out: it left
            assigned at epoch 4 to 1 members, uniform
            a: epoch -1
        beat b
            b: epoch 4 has t:0,1,2,3
        show
            Stable epoch 4 target 4
            b epoch 4 STABLE t:0,1,2,3 -> t:0,1,2,3
        leave b
            b is out: it left
            b: epoch -1
        show
            Empty epoch 5 target 4
        """
    )


def test_a_member_that_does_not_revoke_is_out(script):
    """After its rebalance timeout; the one who waits gets everything."""
    script.run(
        """
        topics t=2
        join a rebalance=30
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        beat a
            a: epoch 2 has t:0
        after 29
        beat b owns=?
            b: epoch 3
        beat a owns=t:0,1
            a: epoch 2
        show
            Reconciling epoch 3 target 3
            a epoch 2 UNREVOKED_PARTITIONS t:0 revoking t:1 -> t:0
            b epoch 3 UNRELEASED_PARTITIONS - -> t:1
        after 1
            +1s a is out: it did not give its partitions back in time
            +1s assigned at epoch 4 to 1 members, uniform
        show
            Reconciling epoch 4 target 4
            b epoch 3 UNRELEASED_PARTITIONS - -> t:0,1
        beat a
            UNKNOWN_MEMBER_ID
        beat b
            b: epoch 4 has t:0,1
        """
    )


def test_a_silent_member_is_out(new_script):
    """After the session timeout; every heartbeat renews the session."""
    script = new_script(session_timeout_ms=10_000)
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        after 9
        beat a owns=?
            a: epoch 2
        after 9
        beat a owns=?
            a: epoch 2
        after 10
            +10s a is out: its session has ended
        show
            Empty epoch 3 target 2
        beat a
            UNKNOWN_MEMBER_ID
        """
    )


def test_epochs_fence(script):
    """A member may come with the epoch before if it owns nothing but its own; or begin anew."""
    script.run(
        """
        topics t=4
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1,2,3
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        beat a epoch=3
            FENCED_MEMBER_EPOCH
        beat a epoch=1
            FENCED_MEMBER_EPOCH
        beat a owns=t:0,1,2,3
            a: epoch 2 has t:0,1
        beat a owns=t:0,1
            a: epoch 3
        beat b
            b: epoch 3 has t:2,3
        show
            Stable epoch 3 target 3
            a epoch 3 STABLE t:0,1 -> t:0,1
            b epoch 3 STABLE t:2,3 -> t:2,3
        beat b epoch=2 owns=-
            FENCED_MEMBER_EPOCH
        beat a epoch=2 owns=t:0,1
            a: epoch 3
        beat a epoch=2 owns=t:0,1,2
            FENCED_MEMBER_EPOCH
        beat a epoch=2 owns=?
            FENCED_MEMBER_EPOCH
        join a
            a: epoch 3 has t:0,1
        """
    )


def test_strangers_are_refused(script):
    """Unless they join."""
    script.run(
        """
        beat a id=a epoch=1
            GROUP_ID_NOT_FOUND
        leave a id=a
            GROUP_ID_NOT_FOUND
        topics t=1
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0
        beat a id=stranger epoch=1
            UNKNOWN_MEMBER_ID
        leave a id=stranger
            UNKNOWN_MEMBER_ID
        leave a
            a is out: it left
            a: epoch -1
        leave a
            UNKNOWN_MEMBER_ID
        """
    )


def test_static_members_come_back_under_another_id(script):
    """They find what they had, once their former self is away."""
    script.run(
        """
        topics t=4
        join a instance=one
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1,2,3
        join b instance=two
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        beat a instance=one
            a: epoch 2 has t:0,1
        beat a instance=one
            a: epoch 3
        beat b instance=two
            b: epoch 3 has t:2,3
        join c instance=one
            UNRELEASED_INSTANCE_ID
        away a instance=one
            static member one is away
            a: epoch -2
        show
            Reconciling epoch 3 target 3
            a epoch -2 STABLE t:0,1 -> t:0,1
            b epoch 3 STABLE t:2,3 -> t:2,3
        join c instance=one
            static member one is back as c
            c: epoch 3 has t:0,1
        show
            Stable epoch 3 target 3
            b epoch 3 STABLE t:2,3 -> t:2,3
            c epoch 3 STABLE t:0,1 -> t:0,1
        beat a instance=one
            FENCED_INSTANCE_ID
        beat c instance=two
            FENCED_INSTANCE_ID
        beat c instance=nobody
            UNKNOWN_MEMBER_ID
        away b instance=two
            static member two is away
            b: epoch -2
        after 44
        beat c instance=one
            c: epoch 3
        after 1
            +1s b is out: its session has ended
            +1s assigned at epoch 4 to 1 members, uniform
        leave c instance=one
            c is out: it left
            c: epoch -1
        """
    )


def test_a_join_in_its_place_that_is_refused_leaves_a_static_member_its_session(script):
    script.run(
        """
        topics t=1
        join a instance=one
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0
        away a instance=one
            static member one is away
            a: epoch -2
        join b instance=one regex=(
            INVALID_REGULAR_EXPRESSION
        after 46
            +45s a is out: its session has ended
        """
    )


def test_a_full_group_takes_nobody_else(new_script):
    """Who is in it may join again."""
    script = new_script(max_size=1)
    script.run(
        """
        topics t=1
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0
        join b
            GROUP_MAX_SIZE_REACHED
        join a
            a: epoch 2 has t:0
        """
    )


def test_members_vote_for_an_assignor(script):
    """Most of them decide; one that isn't offered is refused."""
    script.run(
        """
        topics t=4 u=4
        join a assignor=range topics=t,u
            a joins
            assigned at epoch 2 to 1 members, range
            a: epoch 2 has t:0,1,2,3 u:0,1,2,3
        join b assignor=range topics=t,u
            b joins
            assigned at epoch 3 to 2 members, range
            b: epoch 3 has -
        join c assignor=uniform topics=t,u
            c joins
            assigned at epoch 4 to 3 members, range
            c: epoch 4 has -
        join d assignor=sticky
            UNSUPPORTED_ASSIGNOR
        show
            Reconciling epoch 4 target 4
            a epoch 2 STABLE t:0,1,2,3 u:0,1,2,3 -> t:0,1 u:0,1
            b epoch 3 UNRELEASED_PARTITIONS - -> t:2 u:2
            c epoch 4 UNRELEASED_PARTITIONS - -> t:3 u:3
        """
    )


def test_an_assignor_that_is_offered_no_more_gives_way_to_the_first(script):
    """Members may have voted for it at another broker, or before its settings were changed."""
    script.run(
        """
        topics t=4
        join a assignor=range
            a joins
            assigned at epoch 2 to 1 members, range
            a: epoch 2 has t:0,1,2,3
        """
    )
    script.settings = script.settings._replace(assignors=("uniform",))
    script.run(
        """
        join b
            b joins
            assigned at epoch 3 to 2 members, uniform
            b: epoch 3 has -
        """
    )


def test_requests_that_make_no_sense(script):
    """Each is refused for a reason of its own."""
    script.run(
        """
        topics t=1
        join a owns=t:0
            INVALID_REQUEST
        join a owns=?
            INVALID_REQUEST
        join a id=a rebalance=-0.001
            INVALID_REQUEST
        join a id=
            INVALID_REQUEST
        join a instance=
            INVALID_REQUEST
        join a rack=
            INVALID_REQUEST
        beat a id=a epoch=-3
            INVALID_REQUEST
        away a id=a
            INVALID_REQUEST
        """
    )


def test_ids_are_made_by_the_server_in_version_0(script):
    """As clients of before KIP-1082 expect."""
    script.run(
        """
        topics t=1
        join a id= version=0
            1 joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0
        """
    )


def test_a_full_request_gets_a_full_answer(script):
    """A client that lost an answer says everything again; one that says less has no need of it.

    ConsumerGroupHeartbeat of Kafka: full is a request with a rebalance timeout, a subscription and
    the partitions that the member owns.
    """
    script.run(
        """
        topics t=2
        join a
            a joins
            assigned at epoch 2 to 1 members, uniform
            a: epoch 2 has t:0,1
        beat a rebalance=60 topics=t
            a: epoch 2 has t:0,1
        beat a topics=t
            a: epoch 2
        beat a rebalance=60
            a: epoch 2
        beat a rebalance=60 topics=t owns=?
            a: epoch 2
        join a
            a: epoch 2 has t:0,1
        """
    )
