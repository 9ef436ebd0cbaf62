"""What the tests of commands share."""

import pytest

MOMENT_S = 0.2


@pytest.fixture
def short_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command soon says what it waits for, which it does after a second otherwise."""
    for module in ("kwire.client.patience", "kwire.cli.leaderless"):
        monkeypatch.setattr(f"{module}.SILENT_S", MOMENT_S)
