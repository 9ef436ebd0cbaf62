"""Limiting a stream of bytes to a rate.

Source: Throttler of Kafka (``log.cleaner.io.max.bytes.per.second``).
"""

from collections.abc import Callable

CHECK_S = 0.3
"""The rate is kept on average over periods of this length."""


class Throttle:
    """Sleeps to keep the rate; ``clock`` returns seconds, ``sleep`` waits for seconds."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._began_s = clock()
        self._bytes = 0

    def count_bytes(self, size_bytes: int) -> None:
        """Count bytes that were read or written, and wait if they came too fast."""
        self._bytes += size_bytes
        now_s = self._clock()
        passed_s = now_s - self._began_s
        if passed_s < CHECK_S and self._bytes < self._rate * CHECK_S:
            return
        too_early_s = self._bytes / self._rate - passed_s
        if too_early_s > 0:
            self._sleep(too_early_s)
            now_s = self._clock()
        self._began_s, self._bytes = now_s, 0
