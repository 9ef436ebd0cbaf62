"""How long a rebalance waits for more members than it knows of."""

from kwire.coordinator.initial_rebalance_delay import (
    ANNOUNCED_AT_MOST,
    AnnouncedClients,
    RebalanceRate,
)


def test_a_client_alone_waits_for_nobody(script):
    """It asked for the coordinator; nobody else did."""
    script.run(
        """
        ask a
        join a
            record generation 0 empty
            a join: MEMBER_ID_REQUIRED a-1
        ask a
        join a
            a join: generation 1 range leader a-1 [a-1]
        """
    )


def test_clients_that_start_together_share_the_first_generation(script):
    """Who has asked is expected; it ends when it has been quiet, sooner once all are there."""
    script.run(
        """
        ask a b c
        join a version=3
            record generation 0 empty
        after 0.2
        join b version=3
        after 0.1
        join c version=3
        after 1
            +0.06s a join: generation 1 range leader a-1 [a-1 b-2 c-3]
            +0.06s b join: generation 1 range leader a-1
            +0.06s c join: generation 1 range leader a-1
        """
    )


def test_a_group_without_members_has_nothing_to_settle(script):
    """Its only member has left, and a client that was given an id has not joined with it."""
    script.run(
        """
        ask a b
        join b instance=i
            record generation 0 empty
        join a
            a join: MEMBER_ID_REQUIRED a-2
        leave instance=i
            b join: UNKNOWN_MEMBER_ID i-1
            leave: i NONE
        after 5
        """
    )


def test_who_asked_and_does_not_come_is_not_waited_for_long(script):
    """A tool asks too; the longer wait is for a group of which most are missing."""
    script.run(
        """
        ask a tool
        join a version=3
            record generation 0 empty
        after 1
            +0.06s a join: generation 1 range leader a-1 [a-1]
        leave a
            record generation 2 empty
            leave: a-1 NONE
        ask x y z
        join b version=3
        after 1
            +0.25s b join: generation 3 range leader b-2 [b-2]
        """
    )


def test_clients_that_keep_coming_do_not_hold_up_the_others_for_ever(script):
    """A second after the first one it begins."""
    script.run(
        """
        ask a b
        join a version=3
            record generation 0 empty
        """
    )
    for number in range(19):
        script.run("after 0.05")
        script.run(f"join n{number} version=3")
    seen = script.command("after 0.05")
    assert len(seen) == 20
    assert seen[0].startswith("+0.05s a join: generation 1")


def test_questions_of_long_ago_do_not_count(script):
    """Two seconds later a client that has asked is as good as gone."""
    script.run(
        """
        ask x y z
        after 2
        ask a
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        """
    )


def test_a_delay_that_is_set_is_kept_to(new_script):
    """group.initial.rebalance.delay.ms other than 0 means what it means in Kafka."""
    new_script(initial_rebalance_delay_ms=2000).run(
        """
        ask a b
        join a version=3
            record generation 0 empty
        after 3
            +2s a join: generation 1 range leader a-1 [a-1]
        """
    )


def test_a_group_that_never_rests_is_slowed_down(script):
    """Its members are answered, but not as fast as they can ask."""
    script.run(
        """
        join a version=3
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        """
    )
    for number in range(19):
        [answer] = script.command(f"join a topics=t{number}")
        assert f"generation {number + 2}" in answer
    script.run(
        """
        join a topics=x
        after 1
            +0.5s a join: generation 21 range leader a-1 [a-1]
        """
    )


def test_a_busy_group_waits_longer_than_its_rebalance_timeout(script):
    """The wait ends the rebalance, and the timeout that passes meanwhile has no effect."""
    script.run(
        """
        join a version=3 rebalance=0.05 topics=t
            record generation 0 empty
            a join: generation 1 range leader a-1 [a-1]
        """
    )
    for number in range(19):
        [answer] = script.command(f"join a rebalance=0.05 topics=t{number}")
        assert f"generation {number + 2}" in answer
    script.run(
        """
        join a rebalance=0.05 topics=x
        after 0.5
            +0.5s a join: generation 21 range leader a-1 [a-1]
        """
    )


def test_a_group_that_rested_is_not_slowed_down():
    """Only rebalances of the last seconds count."""
    rebalance_rate = RebalanceRate()
    assert [rebalance_rate.delay_if_busy(at) for at in range(0, 30_000, 1000)] == [None] * 30
    assert rebalance_rate.delay_if_busy(29_001) is None


def test_only_so_many_questions_are_remembered():
    """Neither of one group nor of many."""
    announced = AnnouncedClients()
    for number in range(ANNOUNCED_AT_MOST + 10):
        announced.record_lookup("g", number, 0)
        announced.record_lookup(f"g{number}", 0, 0)
    assert announced.count_connections("g", 0) == ANNOUNCED_AT_MOST
    assert announced.count_connections("g0", 0) == 0
    assert announced.count_connections("g100", 0) == 1
