"""What tests of the poller share."""

import itertools
import os

import pytest


@pytest.fixture
def time_by_looks(monkeypatch):
    """The poller's time goes on by 10 µs with every look at it; there is a second processor."""
    looks = itertools.count()
    monkeypatch.setattr("kwire.connection.poller.perf_counter", lambda: next(looks) * 1e-5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1}, raising=False)
