"""Memory asked for before a load: as much as there is."""

import resource

import pytest

from bench.lent_memory import PAGE_BYTES, available_bytes, touch

MANY_PAGES = 4096


def test_it_is_touched() -> None:
    """The process has faulted for it."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    assert touch(MANY_PAGES * PAGE_BYTES) == MANY_PAGES * PAGE_BYTES
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_minflt > before.ru_minflt


def test_half_of_what_there_is_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none where the kernel doesn't say how much there is."""
    assert available_bytes() > 0
    monkeypatch.setattr("bench.lent_memory.available_bytes", lambda: 10 * PAGE_BYTES)
    assert touch(MANY_PAGES * PAGE_BYTES) == 5 * PAGE_BYTES
    monkeypatch.setattr("bench.lent_memory.available_bytes", lambda: 0)
    assert touch(MANY_PAGES * PAGE_BYTES) == 0
