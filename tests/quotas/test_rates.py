"""Rates and buckets count as Kafka's SampledStat, Rate and TokenBucket do.

The promise: whoever waits as long as ``wait_ms`` says is within the limit afterwards.
"""

import pytest

from kwire.quotas.rates import MOST_MS, Bucket, Rate, Window

WINDOW = Window(11, 1000)


def test_a_rate_is_measured_over_ten_windows_and_the_part_of_the_last():
    rate = Rate(WINDOW, 0)
    rate.record(500, 0)
    assert rate.measure(0) == (50, 10_000)  # the windows before it were empty
    assert rate.measure(500) == (500 / 10.5, 10_500)
    rate.record(500, 1000)
    assert rate.measure(1000) == (100, 10_000)


def test_a_burst_waits_until_its_rate_is_the_limit():
    rate = Rate(WINDOW, 0)
    rate.record(2000, 0)
    assert rate.wait_ms(100, 0) == 10_000  # (200 - 100) / 100 * 10 s
    assert rate.wait_ms(200, 0) == 0


def test_windows_leave_the_rate_one_by_one():
    """Also when nothing was recorded for a while, so that no window ended."""
    rate = Rate(WINDOW, 0)
    for second in range(20):
        rate.record(100, 1000 * second)
    value, elapsed_ms = rate.measure(19_000)
    assert value == pytest.approx(100, rel=0.12)
    assert elapsed_ms <= 11_000
    assert rate.measure(19_000 + 11_000) == (0, 10_000)


def test_what_is_taken_back_was_not_used():
    rate = Rate(WINDOW, 0)
    rate.record(500, 0)
    rate.record(-500, 0)
    assert rate.measure(0)[0] == 0


def test_a_client_that_waits_as_told_stays_within_its_limit():
    """Nearly: windows with few large requests leave the rate too early, as in Kafka."""
    for size in (10, 700, 5000):
        rate = Rate(WINDOW, 0)
        now_ms = used = 0
        while now_ms < 600_000:
            rate.record(size, now_ms)
            used += size
            now_ms += 1 + rate.wait_ms(100, now_ms)
        assert used / (now_ms / 1000) <= 150


def test_a_wait_fits_into_a_response():
    rate = Rate(WINDOW, 0)
    rate.record(1e300, 0)
    assert rate.wait_ms(1e-300, 0) == MOST_MS


def test_a_bucket_begins_full_and_lends():
    bucket = Bucket(WINDOW, 10, 0)
    assert bucket.left(10, 0) == 110
    bucket.take_tokens(150, 10, 0)
    assert bucket.wait_ms(10, 0) == 4000
    assert bucket.wait_ms(10, 3999) == 1
    assert bucket.wait_ms(10, 4000) == 0
    assert bucket.left(10, 10**9) == 110


def test_a_bucket_takes_back_no_more_than_fits():
    bucket = Bucket(WINDOW, 10, 0)
    bucket.take_tokens(-500, 10, 0)
    assert bucket.left(10, 0) == 110
