"""How soon members are asked to come again."""

from kwire.coordinator.consumer.heartbeat_interval import (
    GROUP_RATE_PER_S,
    SHORTEST_MS,
    BrokerHeartbeats,
    HeartbeatInterval,
    TokenBucket,
)

CONFIGURED_MS = 5_000


def beats_until_configured(
    interval: HeartbeatInterval, members: int, budget: BrokerHeartbeats, now_ms: int
) -> int:
    """How often a member comes before it is told to come as the settings say."""
    for count in range(10_000):
        interval_ms = interval.next_ms(members, CONFIGURED_MS, budget, now_ms)
        if interval_ms == CONFIGURED_MS:
            return count
        now_ms += interval_ms
    raise AssertionError("it never settles")


def test_a_bucket_has_so_many_tokens_and_gets_them_back_in_time():
    """No more at once than the burst, and half a token is none."""
    bucket = TokenBucket()
    assert [bucket.take_token(3, 2.0, 0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take_token(3, 2.0, 499)
    assert bucket.take_token(3, 2.0, 500)
    assert not bucket.take_token(3, 2.0, 500)


def test_a_quiet_group_goes_by_its_settings():
    """Nothing has happened to it since the broker started."""
    assert HeartbeatInterval().next_ms(3, CONFIGURED_MS, BrokerHeartbeats(), 0) == CONFIGURED_MS


def test_after_a_change_members_come_soon_and_then_ever_more_rarely():
    """A group that doesn't settle is little more work than one that has."""
    interval = HeartbeatInterval()
    interval.start_anew(0)
    assert interval.next_ms(3, CONFIGURED_MS, BrokerHeartbeats(), 0) == SHORTEST_MS
    assert interval.next_ms(3, CONFIGURED_MS, BrokerHeartbeats(), 3_000) == 1_000
    assert interval.next_ms(3, CONFIGURED_MS, BrokerHeartbeats(), 15_000) == CONFIGURED_MS
    assert beats_until_configured(interval, 1, BrokerHeartbeats(), 0) < 25


def test_intervals_are_never_longer_than_the_settings_say():
    """Nor is there anything to gain where these are short."""
    interval = HeartbeatInterval()
    interval.start_anew(0)
    assert interval.next_ms(3, 50, BrokerHeartbeats(), 0) == 50


def test_large_groups_send_no_more_than_others():
    """The more members, the rarer each of them comes."""
    interval = HeartbeatInterval()
    interval.start_anew(0)
    members = GROUP_RATE_PER_S // 2
    assert interval.next_ms(members, CONFIGURED_MS, BrokerHeartbeats(), 0) == 500
    assert interval.next_ms(members * 100, CONFIGURED_MS, BrokerHeartbeats(), 0) == CONFIGURED_MS


def churn(seconds: int, intervals: list[HeartbeatInterval], budget: BrokerHeartbeats) -> int:
    """Heartbeats a second in the end, of groups of one member that change all the time."""
    due = dict.fromkeys(range(len(intervals)), 0)
    beats = 0
    for now_ms in range(0, seconds * 1000, 50):
        for index, interval in enumerate(intervals):
            interval.start_anew(now_ms)
            if due[index] <= now_ms:
                due[index] = now_ms + interval.next_ms(1, CONFIGURED_MS, budget, now_ms)
                beats += now_ms >= (seconds - 10) * 1000
    return beats // 10


def test_a_group_that_churns_is_soon_treated_like_any_other():
    """One heartbeat a second and member at most, and those of the settings."""
    assert churn(60, [HeartbeatInterval()], BrokerHeartbeats()) <= 2


def test_many_groups_share_the_budget_of_the_broker():
    """However many churn at once."""
    heartbeats = BrokerHeartbeats()
    assert sum(heartbeats.take_token(0) for _ in range(100_000)) <= 5_000
    assert (
        sum(heartbeats.take_token(now_ms) for now_ms in range(0, 10_000, 1) for _ in range(5))
        <= 10_500
    )
