"""Rates over the last seconds, and buckets of tokens: the arithmetic of Kafka's quotas.

Rules:

- A rate is measured over ``samples`` windows of ``size_ms`` each. The last window isn't full yet. A
  window begins with the first value after the end of the window before.
- A client over its limit waits until its rate, without further use, has fallen to the limit.
- A bucket of tokens fills at the speed of its limit, up to what the limit allows in all windows. A
  bucket with tokens gives as many as a client asks for, even if it is below zero afterwards. A
  bucket below zero gives nothing until it is filled to zero again.

Source: SampledStat, Rate, TokenBucket, QuotaUtils of Kafka; KIP-13, KIP-599.
"""

from math import floor
from typing import NamedTuple

MOST_MS = 2**31 - 1
"""The longest wait: an int32 in responses."""


class Window(NamedTuple):
    """How many windows a rate has, and how long each is."""

    samples: int
    size_ms: int


class Rate:
    """A sum over the last windows. Times are in ms on any clock that never goes back."""

    __slots__ = ("_current", "_lasts_ms", "_starts_ms", "_sums", "window")

    def __init__(self, window: Window, now_ms: int) -> None:
        self.window = window
        self._current = 0
        self._sums = [0.0]
        self._starts_ms = [now_ms]
        self._lasts_ms = [now_ms]

    def record(self, value: float, now_ms: int) -> None:
        """Count a value; a negative value takes back an earlier count."""
        at = self._current
        if now_ms - self._starts_ms[at] >= self.window.size_ms:
            at = self._advance(now_ms)
        self._sums[at] += value
        self._lasts_ms[at] = now_ms

    def _advance(self, now_ms: int) -> int:
        # One window more than a rate has: the oldest may overlap the rate's beginning.
        at = self._current = (self._current + 1) % (self.window.samples + 1)
        if at == len(self._sums):
            self._sums.append(0.0)
            self._starts_ms.append(now_ms)
            self._lasts_ms.append(now_ms)
        else:
            self._reset(at, now_ms)
        return at

    def _reset(self, at: int, now_ms: int) -> None:
        self._sums[at] = 0.0
        self._starts_ms[at] = self._lasts_ms[at] = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """The rate in units a second, and over how many ms it was measured."""
        samples, size_ms = self.window
        expire_ms = now_ms - samples * size_ms
        for at, last_ms in enumerate(self._lasts_ms):
            if last_ms <= expire_ms:
                self._reset(at, now_ms)
        elapsed_ms = now_ms - min(self._starts_ms)
        # With fewer full windows, the rate in the first second would be far too high.
        lacking = samples - 1 - elapsed_ms // size_ms
        if lacking > 0:
            elapsed_ms += lacking * size_ms
        elapsed_ms = max(elapsed_ms, 1)
        return sum(self._sums) / (elapsed_ms / 1000), elapsed_ms

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long to wait until the rate is back at ``limit``; 0 if it isn't above it."""
        value, elapsed_ms = self.measure(now_ms)
        if value <= limit:
            return 0
        return MOST_MS if limit <= 0 else _bounded((value - limit) / limit * elapsed_ms)


class Bucket:
    """A bucket of tokens, which fills at the speed of a limit. A new bucket is full."""

    __slots__ = ("_filled_ms", "_tokens", "window")

    def __init__(self, window: Window, limit: float, now_ms: int) -> None:
        self.window = window
        self._tokens = self._most(limit)
        self._filled_ms = now_ms

    def _most(self, limit: float) -> float:
        return self.window.samples * self.window.size_ms / 1000 * limit

    def left(self, limit: float, now_ms: int) -> float:
        """How many tokens there are; below zero, the bucket gives none."""
        come = (now_ms - self._filled_ms) / 1000 * limit
        self._tokens = min(self._most(limit), self._tokens + come)
        self._filled_ms = now_ms
        return self._tokens

    def take_tokens(self, tokens: float, limit: float, now_ms: int) -> None:
        """Take tokens, even if there are fewer, or give them back if the number is negative."""
        self._tokens = min(self._most(limit), self.left(limit, now_ms) - tokens)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long to wait until the bucket isn't below zero."""
        left = self.left(limit, now_ms)
        return _bounded(-left / limit * 1000) if left < 0 else 0


def _bounded(wait_ms: float) -> int:
    return MOST_MS if wait_ms >= MOST_MS else floor(wait_ms + 0.5)
