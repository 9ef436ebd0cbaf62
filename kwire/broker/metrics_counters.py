"""The counters of a broker for its metrics: plain numbers, read only when metrics are requested.

Rules:

- Times and errors are counted only if ``is_on``, because only the HTTP port shows them.
- A single request of Produce (``kwire.protocol.single``) costs one addition. Its time is that of
  its pass of the poller: from the moment when its connection was ready until the responses of the
  pass were sent. Another pass of the same connections therefore counts each of its requests with
  the same time.
- Any other request is timed on its own, in phases.
- Numbers that the broker keeps anyway (offsets, sizes, connections) are not counted again here.
"""

from collections import Counter
from typing import Final

BUCKETS: Final = 28
"""Bucket ``n`` holds times of fewer than ``2**n`` µs that fit into no bucket before it."""


MOST_BUGS: Final = 20


class Bugs(list[Exception]):
    """The unexpected exceptions; ``seen`` is their number.

    Only the first ``MOST_BUGS`` are kept, because an exception keeps the objects of its request.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def append(self, error: Exception) -> None:
        """Count a bug, and keep it if it is one of the first."""
        self.seen += 1
        if len(self) < MOST_BUGS:
            super().append(error)


class Histogram:
    """A histogram of times: how many fell into each bucket, and their sum in µs."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_us = 0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a time, ``times`` times."""
        us = int(seconds * 1e6)
        self.sum_us += us * times
        bucket = us.bit_length()
        self.counts[bucket if bucket < BUCKETS else BUCKETS - 1] += times


class RequestTimes:
    """The times of one API's requests, by phase.

    - ``queue``: from when its connection was found ready until the broker began with it.
    - ``local``: decoding the request, and running its handler.
    - ``wait``: the handler waited for a change, for a slice of the event loop, or for a disk.
    - ``total``: the sum of the three.
    """

    __slots__ = ("local", "queue", "total", "wait")

    def __init__(self) -> None:
        self.queue = Histogram()
        self.local = Histogram()
        self.wait = Histogram()
        self.total = Histogram()

    def add(self, queue_s: float, local_s: float, wait_s: float) -> None:
        """Count a request. ``Histogram.add`` is spelled out: every such request comes here."""
        total_us = 0
        for histogram, seconds in (
            (self.queue, queue_s),
            (self.local, local_s),
            (self.wait, wait_s),
        ):
            us = int(seconds * 1e6)
            total_us += us
            histogram.sum_us += us
            bucket = us.bit_length()
            histogram.counts[bucket if bucket < BUCKETS else BUCKETS - 1] += 1
        self.total.sum_us += total_us
        bucket = total_us.bit_length()
        self.total.counts[bucket if bucket < BUCKETS else BUCKETS - 1] += 1


class MetricsCounters:
    """The counters of one broker.

    ``throttled`` and ``throttled_ms`` are the waits that quotas impose, by the kind of quota.

    ``singles`` is the number of single requests of Produce; ``single_times`` are their times.
    ``errors`` is keyed by API and error code. ``start_s``
    and ``start_logs_s`` are how long the start, and within it the loading of logs, has taken.
    """

    __slots__ = (
        "_counted",
        "accepted",
        "errors",
        "is_on",
        "loop_lag",
        "malformed",
        "passes",
        "refused",
        "requests",
        "single_times",
        "singles",
        "start_logs_s",
        "start_s",
        "throttled",
        "throttled_ms",
    )

    def __init__(self) -> None:
        self.is_on = False
        self.singles = self._counted = 0
        self.single_times = Histogram()
        self.requests: dict[int, RequestTimes] = {}
        self.errors: Counter[tuple[int, int]] = Counter()
        self.passes = Histogram()
        self.loop_lag = Histogram()
        self.throttled: Counter[str] = Counter()
        self.throttled_ms: Counter[str] = Counter()
        self.accepted = self.refused = self.malformed = 0
        self.start_s = self.start_logs_s = 0.0

    def times_of(self, api_key: int) -> RequestTimes:
        """The times of an API."""
        times = self.requests.get(api_key)
        if times is None:
            times = self.requests[api_key] = RequestTimes()
        return times

    def end_pass(self, seconds: float) -> None:
        """Count a pass of the poller, and the single requests that were served in it.

        This runs once for every wake-up, so it spells out ``Histogram.add``.
        """
        us = int(seconds * 1e6)
        bucket = us.bit_length()
        if bucket >= BUCKETS:
            bucket = BUCKETS - 1
        passes = self.passes
        passes.counts[bucket] += 1
        passes.sum_us += us
        count = self.singles - self._counted
        if count:
            times = self.single_times
            times.counts[bucket] += count
            times.sum_us += us * count
            self._counted = self.singles
