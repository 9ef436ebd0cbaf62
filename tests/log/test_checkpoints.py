"""Checkpoints as Kafka leaves them behind."""

import logging
from pathlib import Path

import pytest

from kwire.log.checkpoints import CLEANER_OFFSETS, read_offsets
from kwire.log.disk import Disk


@pytest.mark.parametrize(
    ("content", "warnings"),
    [("", 0), ("0\n", 1), ("0\n2\norders 0 5\n", 1), ("0\n1\norders 0 5", 1)],
)
def test_a_checkpoint_that_says_nothing(tmp_path: Path, caplog, content: str, warnings: int):
    """One that Kafka has made and never written is as good as none; a broken one is told."""
    path = tmp_path / CLEANER_OFFSETS
    path.write_text(content)
    with caplog.at_level(logging.WARNING):
        assert read_offsets(path, Disk()) == {}
    assert len(caplog.records) == warnings
