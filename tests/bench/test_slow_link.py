"""The slow cable of P14: a frame takes as long as the cable's rate and delay say."""

import os
from collections.abc import Iterator

import pytest

from bench.reliability.slow_link import BITS_PER_S, DELAY_S, IDLE_S, QUEUE_S, Way

FRAME = bytes(1500)
FRAME_S = len(FRAME) * 8 / BITS_PER_S


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """A pipe in place of a TAP device: to read from, and to write to."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for fd in ends:
        os.close(fd)


def test_frames_arrive_one_after_the_other(ends: tuple[int, int]) -> None:
    """The first after its own time and the delay, the second after that of both."""
    way = Way(ends[1])
    way.take(b"a" + FRAME[1:], 10.0)
    way.take(b"b" + FRAME[1:], 10.0)
    first_s = 10.0 + FRAME_S + DELAY_S
    assert way.give(first_s - 0.001) == pytest.approx(0.001)
    assert way.give(first_s + 0.0001) == pytest.approx(FRAME_S - 0.0001)
    assert os.read(ends[0], 2 * len(FRAME)) == b"a" + FRAME[1:]
    assert way.give(first_s + FRAME_S + 0.0001) > 0
    assert os.read(ends[0], 2 * len(FRAME)) == b"b" + FRAME[1:]


def test_what_would_wait_too_long_is_dropped() -> None:
    """Else a cable that is always full would be later and later."""
    target = os.open(os.devnull, os.O_WRONLY)
    way = Way(target)
    for _ in range(int(3 * QUEUE_S / FRAME_S)):
        way.take(FRAME, 0.0)
    assert way.give(QUEUE_S) < FRAME_S + 0.001
    assert way.give(QUEUE_S + DELAY_S + 2 * FRAME_S) == IDLE_S
    os.close(target)
