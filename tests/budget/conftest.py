"""What several tests of slices need."""

import pytest

from kwire.budget.work import SLICE_S
from kwire.handlers.lib.slices import PIECE
from tests.support.clock import step_clock, use_clock


class LineClock:
    """Seconds that pass by lines of Python, while ``sys.settrace(clock.trace)`` counts them."""

    LINE_S = 5e-7
    """A real line takes less: so a slice has fewer lines here, and few elements show slices."""

    def __init__(self):
        self.lines = 0

        def trace(_frame, _event, _argument):  # called for every line, so it only counts
            self.lines += 1
            return trace

        self.trace = trace

    def __call__(self):
        # This look itself runs no line that is traced: it isn't the connection's.
        return self.lines * self.LINE_S


@pytest.fixture
def small_pieces(monkeypatch):
    """What is done at once is smaller: then few elements are enough to see slices."""
    monkeypatch.setattr("kwire.handlers.lib.slices.PIECE", PIECE // 4)
    monkeypatch.setattr("kwire.dispatch.large_requests.INLINE_ELEMENTS", 50)


@pytest.fixture
def line_clock(monkeypatch, small_pieces):
    """The time of the event loop is the lines of Python that it runs."""
    clock = LineClock()
    use_clock(monkeypatch, clock, "kwire.budget.work", "kwire.budget.slices")
    return clock


@pytest.fixture
def look_clock(monkeypatch, small_pieces):
    """The time of the event loop goes on with each look at it, so that a slice has two pieces."""
    for module in ("kwire.budget.work", "kwire.budget.slices"):
        step_clock(monkeypatch, module, SLICE_S / 2)
