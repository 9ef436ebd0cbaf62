"""The demo itself: flights through a pipeline, with a ``kill -9`` of the broker in the middle."""

import io
from pathlib import Path

import pytest
from PIL import Image
from pyspark.sql import SparkSession
from rich.console import Console

import demo.__main__
from demo.__main__ import Demo

FLIGHTS, BATCHES = 4000, 3
BLUE, RED = (0x44, 0x77, 0xAA), (0xEE, 0x66, 0x77)


def test_the_demo(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table ends with what the file says, the garbage in the dead letters; a picture is there.

    It is kept short: ``make demo`` sends all flights, in more batches.
    """
    monkeypatch.setattr(demo.__main__, "BATCHES", BATCHES)
    picture = tmp_path / "delays.png"
    screen = io.StringIO()
    console = Console(record=True, file=screen, force_terminal=True, width=120)
    directory = tmp_path / "demo"
    directory.mkdir()
    assert Demo(FLIGHTS, console, picture).run(directory), console.export_text()
    assert "killed meanwhile" in console.export_text()
    with Image.open(picture) as image:
        assert image.format == "PNG"
        assert image.size == (1080, 720)
        colours = image.convert("RGB").getcolors(1 << 20)
    assert {BLUE, RED} <= {colour for _, colour in colours or ()}, "no bars of delays"
    assert "100%" in screen.getvalue()
