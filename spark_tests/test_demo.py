"""The demo itself: every flight of 2013, with a ``kill -9`` of the broker in the middle."""

from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from demo.__main__ import Demo

FLIGHTS = 336_776


def test_the_demo(spark: SparkSession, tmp_path: Path) -> None:
    """Producer, consumers and Spark end with what the file says."""
    demo = Demo(None, spark=True, console=Console(record=True))
    assert len(demo.flights) == FLIGHTS
    assert demo.run(tmp_path), demo.console.export_text()
