"""The demo itself: flights through a pipeline, with a ``kill -9`` of the broker in the middle."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import demo.__main__
from demo.__main__ import Demo

FLIGHTS, BATCHES = 4000, 3


def test_the_demo(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table ends with what the file says, the garbage in the dead letters; a picture is there.

    It is kept short: ``make demo`` sends all flights, in more batches.
    """
    monkeypatch.setattr(demo.__main__, "BATCHES", BATCHES)
    picture = tmp_path / "delays.svg"
    console = Console(record=True)
    directory = tmp_path / "demo"
    directory.mkdir()
    assert Demo(FLIGHTS, console, picture).run(directory), console.export_text()
    assert "killed meanwhile" in console.export_text()
    assert picture.read_text(encoding="utf-8").lstrip().startswith("<?xml")
