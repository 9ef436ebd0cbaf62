"""How soon members are asked to come again."""

from kwire.coordinator.consumer.pace import (
    GROUP_RATE_PER_S,
    SHORTEST_MS,
    BrokerBudget,
    Pace,
)

SETTLED_MS = 5_000


def beats_until_settled(pace: Pace, members: int, budget: BrokerBudget, now_ms: int) -> int:
    """How often a member comes before it is told to come as the settings say."""
    for count in range(10_000):
        interval_ms = pace.interval_ms(members, SETTLED_MS, budget, now_ms)
        if interval_ms == SETTLED_MS:
            return count
        now_ms += interval_ms
    raise AssertionError("it never settles")


def test_a_quiet_group_goes_by_its_settings():
    """Nothing has happened to it since the broker started."""
    assert Pace().interval_ms(3, SETTLED_MS, BrokerBudget(), 0) == SETTLED_MS


def test_after_a_change_members_come_soon_and_then_ever_more_rarely():
    """A group that doesn't settle is little more work than one that has."""
    pace = Pace()
    pace.has_changed(0)
    assert pace.interval_ms(3, SETTLED_MS, BrokerBudget(), 0) == SHORTEST_MS
    assert pace.interval_ms(3, SETTLED_MS, BrokerBudget(), 3_000) == 1_000
    assert pace.interval_ms(3, SETTLED_MS, BrokerBudget(), 15_000) == SETTLED_MS
    assert beats_until_settled(pace, 1, BrokerBudget(), 0) < 25


def test_intervals_are_never_longer_than_the_settings_say():
    """Nor is there anything to gain where these are short."""
    pace = Pace()
    pace.has_changed(0)
    assert pace.interval_ms(3, 50, BrokerBudget(), 0) == 50


def test_large_groups_send_no_more_than_others():
    """The more members, the rarer each of them comes."""
    pace = Pace()
    pace.has_changed(0)
    members = GROUP_RATE_PER_S // 2
    assert pace.interval_ms(members, SETTLED_MS, BrokerBudget(), 0) == 500
    assert pace.interval_ms(members * 100, SETTLED_MS, BrokerBudget(), 0) == SETTLED_MS


def churn(seconds: int, paces: list[Pace], budget: BrokerBudget) -> int:
    """Heartbeats a second in the end, of groups of one member that change all the time."""
    due = dict.fromkeys(range(len(paces)), 0)
    beats = 0
    for now_ms in range(0, seconds * 1000, 50):
        for index, pace in enumerate(paces):
            pace.has_changed(now_ms)
            if due[index] <= now_ms:
                due[index] = now_ms + pace.interval_ms(1, SETTLED_MS, budget, now_ms)
                beats += now_ms >= (seconds - 10) * 1000
    return beats // 10


def test_a_group_that_churns_is_soon_treated_like_any_other():
    """One heartbeat a second and member at most, and those of the settings."""
    assert churn(60, [Pace()], BrokerBudget()) <= 2


def test_many_groups_share_the_budget_of_the_broker():
    """However many churn at once."""
    budget = BrokerBudget()
    assert sum(budget.take(0) for _ in range(100_000)) <= 5_000
    assert sum(budget.take(now_ms) for now_ms in range(0, 10_000, 1) for _ in range(5)) <= 10_500
