"""What the tests of commands share."""

import pytest

from kwire.client.fetcher import Fetcher

MOMENT_S = 0.1


@pytest.fixture
def short_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command soon says what it waits for, which it does after a second otherwise.

    A broker answers in order, so that a question about leaders waits for the fetch before it: it is
    a short one.
    """
    for module in ("kwire.client.patience", "kwire.cli.leaderless"):
        monkeypatch.setattr(f"{module}.SILENT_S", MOMENT_S)
    monkeypatch.setitem(Fetcher.__init__.__kwdefaults__, "max_wait_ms", 20)
