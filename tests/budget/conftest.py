"""What several tests of prices need."""

import pytest

from kwire.budget.work import FIRST_UNITS, SLICE_UNITS
from kwire.handlers.lib.slices import PIECE


@pytest.fixture
def small_slices(monkeypatch):
    """Slices, and what is done at once, are smaller: then few elements are enough to see slices."""
    monkeypatch.setattr("kwire.budget.work.FIRST_UNITS", FIRST_UNITS // 8)
    monkeypatch.setattr("kwire.budget.work.SLICE_UNITS", SLICE_UNITS // 8)
    monkeypatch.setattr("kwire.handlers.lib.slices.PIECE", PIECE // 4)
    monkeypatch.setattr("kwire.connection.large.INLINE_ELEMENTS", 50)
